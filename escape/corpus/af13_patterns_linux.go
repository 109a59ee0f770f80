package corpus

import (
	"strings"

	"cloister/escape"
)

func af13() escape.Case {
	return escape.Case{
		ID: "AF-13", Class: "hide of a name that is a link",
		Attack: "read what a rule hides, by the name that a link leads to, and in any folder that gitignore's pattern names; write what one protects",
		Source: "independent audit; gitignore(5)", Layers: []string{"protect"},
		Host: between("hide: ['**/*.pem', secret, 'keys/', 'no-such-*'], protect: ['*.mk', 'conf/**']", func(r *ruled) []escape.Finding {
			r.host(newRepository + "; mkdir -p a/b/c node_modules/m keys x/keys conf/d real; for f in top.pem a/b/c/low.pem node_modules/m/in.pem keys/k x/keys/k real/target a/prot.mk prot.mk conf/d/c; do echo canary >$f; done;" +
				"ln -s real/target secret; ln -s ../real a/secret; echo x >free.txt")
			res := r.run("sh", "-c", "cat top.pem a/b/c/low.pem node_modules/m/in.pem keys/k x/keys/k real/target secret a/secret/target 2>/dev/null; "+
				quietly("for f in a/prot.mk prot.mk conf/d/c; do echo bad >$f; rm -f $f; done", "mv a a2", "echo y >free.txt")+"; cat free.txt")
			return []escape.Finding{
				worked("the session runs", res), found("nothing hidden is shown", !strings.Contains(res.Stdout, "canary"), "%s", res.Stdout),
				r.same("a/prot.mk", "canary\n"), r.same("prot.mk", "canary\n"), r.same("conf/d/c", "canary\n"),
				found("a rule that names nothing is told of", strings.Contains(res.Stderr, "no-such-*"), "%s", res.Stderr), found("control: beside them it reads and writes", strings.Contains(res.Stdout, "y\n"), "%s", res.Stdout),
			}
		}),
	}
}
