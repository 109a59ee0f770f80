package corpus

import (
	"os"

	"cloister/escape"
)

func af09() escape.Case {
	return escape.Case{
		ID: "AF-09", Class: "git configuration from elsewhere",
		Attack: "write where configuration leads that the repository does not have: XDG's, that of the environment, one that another includes on a condition",
		Source: "independent audit; git-config(1)", Layers: []string{"protect"},
		Host: between("", func(r *ruled) []escape.Finding {
			r.host(newRepository + "; mkdir byxdg byenv byglobal bybranch bytemplate; git init -q --bare remote.git; git config remote.r.url remote.git;" +
				"git config 'includeIf.onbranch:other.path' ../cond.inc; printf '[core]\\n\\thooksPath = bybranch\\n' >cond.inc")
			if err := os.MkdirAll(r.base+"/config/git", 0o755); err != nil {
				return escape.NoHost("make a folder", err)
			}
			_ = os.WriteFile(r.base+"/config/git/config", []byte("[core]\n\thooksPath = byxdg\n[init]\n\ttemplateDir = "+r.project+"/bytemplate\n"), 0o600)
			_ = os.WriteFile(r.base+"/global", []byte("[core]\n\thooksPath = byglobal\n"), 0o600)
			try := quietly("for d in byxdg byenv byglobal bybranch bytemplate remote.git/hooks; do echo x >$d/pre-commit; done", "echo x >>cond.inc", "echo x >>remote.git/config", "mkdir -p free", "echo x >free/pre-commit")
			// XDG's, with what includes on a condition, and then what the environment adds.
			first := r.run("sh", "-c", try)
			argv := append(r.variables(), "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.hooksPath", "GIT_CONFIG_VALUE_0=byenv", "GIT_CONFIG_GLOBAL="+r.base+"/global",
				r.w.Cloister, "run", "-C", r.project, "--", "sh", "-c", quietly("rm -f byenv/pre-commit byglobal/pre-commit", "echo y >byenv/pre-commit", "echo y >byglobal/pre-commit"))
			r.host("rm -f byenv/pre-commit byglobal/pre-commit")
			second, err := r.w.Exec("env", argv...)
			out := []escape.Finding{worked("the session runs", first), found("and the second", err == nil && second.Status == 0, "%v %s", err, second.Stderr)}
			for _, name := range []string{"byxdg/pre-commit", "bybranch/pre-commit", "bytemplate/pre-commit", "remote.git/hooks/pre-commit", "byenv/pre-commit", "byglobal/pre-commit"} {
				out = append(out, found("not made: "+name, !r.has(name), "it is there"))
			}
			return append(out, r.same("cond.inc", "[core]\n\thooksPath = bybranch\n"), found("control: beside them it can write", r.has("free/pre-commit"), "it could not"))
		}),
	}
}
