package corpus

import (
	"cloister/escape"
	"strings"
)

func pr18() escape.Case {
	return escape.Case{
		ID: "PR-18", Class: "fileless exec", Attack: "run a program that a policy forbids by name: as it is, by the loader, copied, from memory, by a script's first line, by another name of it; a copy that was brought along is out of promise",
		Source: "OpenShell seccomp.rs", Layers: []string{"view"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			if err := r.w.Write(r.base+"/forbid.cedar", "forbid (principal, action == Action::\"ProcessExec\", resource == File::\"/usr/bin/id\");\n"); err != nil {
				return escape.NoHost("write a policy", err)
			}
			tries := map[string]string{
				"as it is":              "/usr/bin/id",
				"by PATH":               "id",
				"by the loader":         "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e $l ] && exec $l /usr/bin/id; done; exit 9",
				"by another spelling":   "/usr/bin/../bin/id || /bin/id || /proc/self/root/usr/bin/id",
				"by a link":             "ln -sf /usr/bin/id ./x && ./x",
				"by a hard link":        "ln /usr/bin/id ./y && ./y",
				"copied":                "cp /usr/bin/id ./z && chmod +x ./z && ./z",
				"a script's first line": "printf '#!/usr/bin/id\\n' >./s && chmod +x ./s && ./s 2>&1 | sed s/.*no.such.user.*/uid=ran/",
				"from memory":           "python3 -c \"import os; f = os.memfd_create('x'); os.write(f, open('/usr/bin/id','rb').read()); os.execv('/proc/self/fd/%d' % f, ['id'])\"",
				"by env":                "env id",
			}
			var out []escape.Finding
			for name, script := range tries {
				res := r.cloister("run", "-C", r.project, "--policy", r.base+"/forbid.cedar", "--", "sh", "-c", "rm -f x y z s; "+script)
				out = append(out, found(name, !strings.Contains(res.Stdout, "uid=") && res.Status != 125, "%d %q %s", res.Status, res.Stdout, res.Stderr))
			}
			n := 0
			var failed []string
			for name, script := range tries {
				if res := r.cloister("run", "-C", r.project, "--", "sh", "-c", "rm -f x y z s; "+script); strings.Contains(res.Stdout, "uid=") {
					n++
				} else {
					failed = append(failed, name)
				}
			}
			// Links to files of root's are refused by the kernel in any case.
			return append(out, found("control: without the policy all but the hard link come off", n >= len(tries)-1, "%d of %d; not %q", n, len(tries), failed))
		}),
	}
}
