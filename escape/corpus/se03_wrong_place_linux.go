package corpus

import (
	"cloister/escape"
	"strings"
)

func se03() escape.Case {
	return escape.Case{
		ID: "SE-03", Class: "wrong place", Attack: "a placeholder in the query, path, body, a cookie, a field's name, a form, a trailer, a WebSocket's frame, another field: as it is, encoded, byte by byte",
		Source: "OpenShell credential_gating.rs", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			to, h := "tls:bound.test", "bound.test"
			form := "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n${TOKEN}\r\n--b--\r\n"
			upgrade := get(h, "/ok/websocket", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
			return []escape.Finding{
				r.swapped(),
				r.kept("in the query", false, to, get(h, "/ok/x?key=${TOKEN}")),
				r.kept("in the query, encoded", false, to, get(h, "/ok/x?key=${percent:TOKEN}")),
				r.kept("in the path", false, to, get(h, "/ok/${TOKEN}/x")),
				r.kept("in the body", false, to, post(h, "/ok/x", "key=${TOKEN}")),
				r.kept("in the body, in hex", false, to, post(h, "/ok/x", "key=${hex:TOKEN}")),
				r.kept("in the body, in base64", false, to, post(h, "/ok/x", "{\"key\": \"${base64:TOKEN}\"}")),
				r.kept("in the body, byte by byte", false, "slowly", to, post(h, "/ok/x", "key=${TOKEN}")),
				r.kept("in a form", false, to, post(h, "/ok/x", form, "Content-Type: multipart/form-data; boundary=b")),
				r.kept("in chunks of a body", false, to, strings.Replace(get(h, "/ok/x", "Transfer-Encoding: chunked"), "GET", "POST", 1)+"2a\r\n${TOKEN}\r\n0\r\n\r\n"),
				r.kept("in a cookie", false, to, get(h, "/ok/x", "Cookie: key=${TOKEN}")),
				r.kept("in another field", false, to, get(h, "/ok/x", "X-Api-Key: ${TOKEN}")),
				r.kept("in a field's name", false, to, get(h, "/ok/x", "X-${TOKEN}: 1")),
				r.kept("twice in its own field", true, to, get(h, "/ok/x", "Authorization: Bearer ${TOKEN} ${TOKEN}x")),
				r.kept("in its own field and another one", false, to, get(h, "/ok/x", bearer, "X-Copy: ${TOKEN}")),
				r.kept("in a trailer: it passes as it is", true, to, strings.Replace(get(h, "/ok/x", "Transfer-Encoding: chunked", "Trailer: X-Key"), "GET", "POST", 1)+"1\r\nx\r\n0\r\nX-Key: ${TOKEN}\r\n\r\n"),
				r.kept("in a WebSocket's frame: it passes as it is", true, to, upgrade, "${byte:81}\x2a${TOKEN}"),
			}
		}),
	}
}
