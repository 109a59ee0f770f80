package corpus

import (
	"strings"

	"cloister/escape"
)

func se22() escape.Case {
	return escape.Case{
		ID: "SE-22", Class: "echo outside bodies", Attack: "a server says the secret outside of bodies: phrase, interim response, name of a field, hop-by-hop and own fields, names of trailers, a refused head, frames and control frames of a WebSocket, whole and in halves; also to a session that never sent it",
		Source: "second audit of the border", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			out := []escape.Finding{r.swapped()}
			for _, way := range escape.Echoes() {
				before := len(r.w.Upstream())
				head := []string{bearer}
				if strings.HasPrefix(way, "ws ") {
					head = append(head, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
				}
				res := r.inside("say", "tls:bound.test", get("bound.test", "/ok/reflect/"+strings.ReplaceAll(way, " ", "%20"), head...))
				sent := strings.Join(r.w.Upstream()[before:], "\n")
				said := strings.ToLower(res.Stdout)
				half := strings.ToLower(canary[:len(canary)/2])
				out = append(out, found("in "+way, !strings.Contains(said, half) && strings.Contains(sent, canary) && strings.HasPrefix(res.Stdout, "HTTP/1.1"), "%.500q %s", res.Stdout, res.Stderr))
			}
			return out
		}),
	}
}
