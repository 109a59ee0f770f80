package corpus

import (
	"strings"

	"cloister/escape"
)

func hx07() escape.Case {
	return escape.Case{
		ID: "HX-07", Class: "program lookup", Attack: "a program of the project takes the place of one of the host: first in PATH, by ./, by its whole path, by a link (HX-08: a folder outside the project)",
		Source: "CVE-2025-59532", Layers: []string{"hostexec", "commands"},
		Host: commands("  auto_approve:\n    - pattern: \"^[a-z./-]*uname$\"\n    - pattern: \"^/.*uname$\"\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			plant := "mkdir -p bin; printf '#!/bin/sh\\necho planted\\n' >bin/uname; chmod +x bin/uname; ln -sf bin/uname link-uname; "
			res := r.run("sh", "-c", plant+"PATH=$PWD/bin:$PATH hostexec uname")
			out := []escape.Finding{found("first in PATH", res.Status == 0 && res.Stdout == "Linux\n", "status %d: %q %s", res.Status, res.Stdout, res.Stderr)}
			for _, script := range []string{"hostexec ./bin/uname", "hostexec $PWD/bin/uname", "hostexec $PWD/link-uname", "hostexec bin/../bin/uname", "hostexec /proc/self/cwd/bin/uname"} {
				res := r.run("sh", "-c", plant+script)
				out = append(out, found(script, res.Status != 0 && !strings.Contains(res.Stdout, "planted"), "status %d: %q", res.Status, res.Stdout))
			}
			for _, script := range []string{"cd /tmp; hostexec pwd", "cd /; hostexec pwd", "ln -sfn / out; cd out; hostexec pwd"} {
				res := r.run("sh", "-c", script)
				out = append(out, found(script, res.Status != 0 && res.Stdout == "", "status %d: %q", res.Status, res.Stdout))
			}
			inside := r.run("hostexec", "pwd")
			control := r.host("PATH=$PWD/bin:$PATH uname")
			return append(out,
				found("control: the project's own folder", inside.Status == 0, "status %d: %s", inside.Status, inside.Stderr),
				found("control: outside the planted one runs", control.Stdout == "planted\n", "%q %s", control.Stdout, control.Stderr))
		}),
	}
}
