package corpus

import (
	"cloister/escape"
)

func hx23() escape.Case {
	return escape.Case{
		ID: "HX-23", Class: "grants that stay", Attack: "after a yes for the project: another script behind the name, other arguments, another folder, another program of the name, other words",
		Source: "openclaw #107683, #112946", Layers: []string{"hostexec", "commands", "approval"},
		Host: commands("  manual_approve:\n    - pattern: \"^sh [a-z ./]+$\"\n    - pattern: \"^bash [a-z ./]+$\"\n", func(r *ruled) []escape.Finding {
			out := r.watched(func() []escape.Finding {
				id := r.asked("cd /work && echo 'touch ran; echo ran' >job.sh && mkdir -p sub && cp job.sh sub && hostexec sh job.sh")
				status, said := r.approved(id, "--scope", "project")
				return []escape.Finding{found("a person says yes for the project", status == "0" && r.has("ran"), "%s %s", status, said)}
			})
			again := func(name string, open bool, script string) {
				clean(r.project+"/ran", r.project+"/sub/ran")
				res := r.run("sh", "-c", script)
				ran := r.has("ran") || r.has("sub/ran")
				out = append(out, found(name, ran == open && (res.Status == 0) == open, "ran %t, %d %s", ran, res.Status, res.Stderr))
			}
			again("control: exactly that runs again", true, "hostexec sh job.sh")
			again("more arguments", false, "hostexec sh job.sh x")
			again("by another path", false, "hostexec sh ./job.sh")
			again("in another folder", false, "cd sub && hostexec sh job.sh")
			again("by another program", false, "hostexec bash job.sh")
			again("another script", false, "echo '# x' >>job.sh; hostexec sh job.sh")
			again("a link to it", false, "mv job.sh was.sh; ln -s was.sh job.sh; hostexec sh job.sh")
			return out
		}),
	}
}
