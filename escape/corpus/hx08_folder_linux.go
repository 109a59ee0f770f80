package corpus

import (
	"cloister/escape"
	"strings"
)

func hx08() escape.Case {
	return escape.Case{
		ID: "HX-08", Class: "working folder", Attack: "a host command asked for in a folder outside: by .., by a link, by one that takes the folder's place while a person looks",
		Source: "CVE-2025-59532; DuneSlide", Layers: []string{"hostexec", "commands"}, Needs: map[escape.Layer]string{escape.Commands: "nobody is asked without rules that ask"},
		Host: commands("  auto_approve:\n    - pattern: \"^pwd -P$\"\n  manual_approve:\n    - pattern: \"^ls -a$\"\n", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			for _, script := range []string{"cd / && hostexec pwd -P", "cd /work/.. && hostexec pwd -P", "ln -sfn / up && cd up && hostexec pwd -P", "ln -sfn .. up && cd -P up && hostexec pwd -P", "cd /etc && hostexec pwd -P", "cd $HOME && hostexec pwd -P", "cd /proc/self && hostexec pwd -P", "mkdir -p gone && cd gone && rmdir ../gone && hostexec pwd -P"} {
				res := r.run("sh", "-c", script)
				out = append(out, found(script, res.Status != 0 && !strings.HasPrefix(res.Stdout, "/"), "%d %q %s", res.Status, res.Stdout, res.Stderr))
			}
			good := r.run("sh", "-c", "mkdir -p sub && cd sub && hostexec pwd -P")
			out = append(out, found("control: a folder of the project", good.Status == 0 && strings.HasSuffix(good.Stdout, "/project/sub\n"), "%d %q %s", good.Status, good.Stdout, good.Stderr))
			return append(out, r.watched(func() []escape.Finding {
				id := r.asked("cd /work && rm -rf sub up && mkdir sub && touch sub/mine && cd sub && hostexec ls -a")
				r.host("mv sub was && ln -s / sub")
				status, said := r.approved(id)
				r.host("rm -f sub; rm -rf was")
				id = r.asked("cd /work && mkdir -p sub && touch sub/mine && cd sub && hostexec ls -a")
				was, control := r.approved(id)
				return []escape.Finding{
					found("swapped while a person looks", id != "" && status != "0" && !strings.Contains(said, "etc"), "%s %s", status, said),
					found("control: the same, not swapped", was == "0" && strings.Contains(control, "mine"), "%s %s", was, control),
				}
			})...)
		}),
	}
}
