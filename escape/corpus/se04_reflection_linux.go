package corpus

import (
	"cloister/escape"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

func se04() escape.Case {
	return escape.Case{
		ID: "SE-04", Class: "reflection", Attack: "a server says the secret that it was sent: in the body, a field, an error page, gzip, pieces, base64, hex, percent, JSON, a trailer, a cookie, a redirect",
		Source: "gondolin's known limit", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			out := []escape.Finding{r.swapped()}
			ways, caught := escape.Reflections(), 0
			for _, way := range ways {
				before := len(r.w.Upstream())
				res := r.inside("say", "tls:bound.test", get("bound.test", "/ok/reflect/"+way, bearer))
				sent := strings.Join(r.w.Upstream()[before:], "\n")
				text := strings.ToLower(res.Stdout)
				said := false
				for _, form := range []string{canary, hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte("user:" + canary))[8:48], percents(canary)} {
					said = said || strings.Contains(text, strings.ToLower(form))
				}
				if !said {
					caught++
				}
				out = append(out, found("in "+way, !said && strings.Contains(sent, canary) && strings.HasPrefix(res.Stdout, "HTTP/1.1"), "said %t: %.500s %s", said, res.Stdout, res.Stderr))
			}
			return append(out, found(fmt.Sprintf("%d of %d ways are caught", caught, len(ways)), caught == len(ways), ""))
		}),
	}
}

func percents(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
