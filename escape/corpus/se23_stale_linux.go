package corpus

import (
	"os"
	"path/filepath"
	"strings"

	"cloister/escape"
)

func se23() escape.Case {
	return escape.Case{
		ID: "SE-23", Class: "stale placeholder", Attack: "an agent keeps a placeholder: of an earlier session of the project, of another project, of a value before the last",
		Source: "second audit of the border", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			out := []escape.Finding{r.swapped()}
			token := func(project string) string {
				res := r.cloister("run", "-C", project, "--", "sh", "-c", "echo $TOKEN")
				return strings.TrimSpace(res.Stdout)
			}
			other := filepath.Join(r.base, "another")
			if err := os.MkdirAll(other, 0o755); err != nil {
				return escape.NoHost("make another project", err)
			}
			if err := os.Chmod(other, 0o777); err != nil {
				return escape.NoHost("open another project", err)
			}
			first, foreign := token(r.project), token(other)
			send := func(text string) (escape.Result, string) {
				before := len(r.w.Upstream())
				res := r.inside("say", "tls:bound.test", get("bound.test", "/ok/kept", "Authorization: Bearer "+text))
				return res, strings.Join(r.w.Upstream()[before:], "\n")
			}
			res, sent := send(first)
			out = append(out, found("of an earlier session of the project", first != "" && strings.Contains(sent, canary) && strings.HasPrefix(res.Stdout, "HTTP/1.1 200"), "%q: %.300s; sent %.300s", first, res.Stdout, sent))
			res, sent = send(foreign)
			named := strings.HasPrefix(res.Stdout, "HTTP/1.1 403") && strings.Contains(res.Stdout, "TOKEN") && strings.Contains(res.Stdout, other)
			return append(out, found("of another project, refused by name", foreign != "" && foreign != first && sent == "" && named, "%q: %.500s; sent %.300s", foreign, res.Stdout, sent))
		}),
	}
}
