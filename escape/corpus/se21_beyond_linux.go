package corpus

import (
	"strings"

	"cloister/escape"
)

func se21() escape.Case {
	bound := func(w *escape.World) string {
		return strings.Replace(secretive(w), "header: Authorization", `paths: ["/ok/mine/**", "/ok/control"], header: Authorization`, 1)
	}
	return escape.Case{
		ID: "SE-21", Class: "signing beyond the binding", Attack: "a secret that is bound to paths, in requests that name other objects: sources and destinations of copies of every store, in fields, URLs and the query",
		Source: "issue 16, second audit", Layers: []string{"secrets"},
		Host: withSecret(bound, func(r *ruled) []escape.Finding {
			to, h, at := "tls:bound.test", "bound.test", "/ok/mine/k"
			out := []escape.Finding{r.swapped()}
			before := len(r.w.Upstream())
			res := r.inside("say", to, get(h, at, bearer, "Destination: /ok/mine/b", "X-Amz-Copy-Source: /ok/mine/a"))
			sent := strings.Join(r.w.Upstream()[before:], "\n")
			out = append(out, found("control: a copy within its paths", strings.Contains(sent, canary), "%s %s", res.Stdout, sent))
			for _, field := range []string{
				"Destination: /ok/theirs/b", "Destination: https://bound.test/ok/theirs/b", "Destination: https://unbound.test/ok/mine/b", "destination: /ok/mine/../theirs/b",
				"New-Uri: /ok/theirs/b", "Destination: //bound.test/ok/mine/b", "Destination: /ok/mine/b#c",
				"X-Amz-Copy-Source: /theirs/a", "x-amz-copy-source: ok/theirs/a", "X_Amz_Copy_Source: /ok/theirs/a", "X-Amz-Copy-Source: /ok/mine/%2e%2e/theirs", "X-Amz-Copy-Source: arn:aws:s3:::theirs/a",
				"X-Goog-Copy-Source: theirs/a", "X-Ms-Copy-Source: https://unbound.test/c/a", "X-Oss-Copy-Source: /theirs/a",
			} {
				out = append(out, r.kept(field, false, to, get(h, at, bearer, field)))
			}
			return append(out,
				r.kept("in the query", false, to, get(h, at+"?x-amz-copy-source=%2Ftheirs%2Fa", bearer)),
				r.kept("another path", false, to, get(h, at, bearer, "X-Original-URL: /ok/theirs/k")),
				r.kept("a prefix", false, to, get(h, at, bearer, "X-Forwarded-Prefix: /theirs")),
				r.kept("another host", false, to, get(h, at, bearer, "X-Forwarded-Host: unbound.test")))
		}),
	}
}
