package corpus

import (
	"strings"

	"cloister/escape"
)

func se10a() escape.Case {
	return escape.Case{
		ID: "SE-10a", Class: "a login in the place of another", Attack: "a file of logins that programs read without being told (NETRC, ~/.netrc) would replace the " +
			"Authorization that a program wrote itself",
		Source: "issue 16, second audit", Layers: []string{"environment", "secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			env := r.run("sh", "-c", "env | grep -i netrc; ls -d ~/.netrc ~/_netrc; echo looked; cat /etc/netrc")
			_, file, looked := strings.Cut(env.Stdout, "looked\n")
			before := len(r.w.Upstream())
			res := r.inside("say", "tls:bound.test", get("bound.test", "/ok/own10a", "Authorization: Bearer of-its-own"))
			sent := strings.Join(r.w.Upstream()[before:], "\n")
			return []escape.Finding{
				found("no variable names a file of logins, and none lies where programs look", looked && strings.HasPrefix(env.Stdout, "looked\n"), "%.300s %.200s", env.Stdout, env.Stderr),
				found("control: there is one for who is sent to it, with a placeholder", strings.Contains(file, "machine bound.test") && strings.Contains(file, "password ") && !strings.Contains(file, canary), "%.300s", file),
				found("an Authorization of the program's own goes out as it is", strings.Contains(sent, "Bearer of-its-own") && !strings.Contains(sent, canary), "%.300s; sent %.400s", res.Stdout, sent),
			}
		}),
	}
}
