package corpus

import (
	"cloister/escape"
)

func hx09() escape.Case {
	return escape.Case{
		ID: "HX-09", Class: "operand mutation", Attack: "the script, the file that it is, the program or the interpreter's link are other ones when a person has answered",
		Source: "openclaw #124738, #124858", Layers: []string{"hostexec", "commands"}, Needs: map[escape.Layer]string{escape.Commands: "nobody is asked without rules that ask"},
		Host: commands("  manual_approve:\n    - pattern: \"^sh [a-z/.-]+$\"\n", func(r *ruled) []escape.Finding {
			return r.watched(func() []escape.Finding {
				var out []escape.Finding
				for name, change := range map[string]string{
					"rewritten":                "echo 'touch pwned' >job.sh",
					"another file by renaming": "echo 'touch pwned' >other.sh; mv other.sh job.sh",
					"another by a link":        "echo 'touch pwned' >other.sh; ln -sf other.sh job.sh",
					"more at its end":          "echo 'touch pwned' >>job.sh",
					"taken away":               "rm job.sh",
					"a pipe":                   "rm job.sh; mkfifo job.sh",
				} {
					clean(r.project+"/pwned", r.project+"/ran")
					id := r.asked("cd /work && rm -f job.sh && echo 'touch ran' >job.sh && hostexec sh job.sh")
					r.host(change)
					status, said := r.approved(id)
					out = append(out, found(name, id != "" && status != "0" && !r.has("pwned") && !r.has("ran"), "%q %s %s", id, status, said))
				}
				clean(r.project + "/job.sh")
				id := r.asked("cd /work && echo 'touch ran' >job.sh && hostexec sh job.sh")
				status, said := r.approved(id)
				return append(out, found("control: what a person saw runs", status == "0" && r.has("ran"), "%s %s", status, said))
			})
		}),
	}
}
