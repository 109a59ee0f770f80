package corpus

import (
	"cloister/escape"
	"strings"
)

func nw32a() escape.Case {
	return escape.Case{
		ID: "NW-32a", Class: "HTTP/2 fields", Attack: "within opened TLS: another or two authorities, fields of a connection, upper case, control bytes, pseudo fields twice, late, unknown or missing, extended CONNECT, lengths that are none",
		Source: "CVE-2022-1705's kin (h2.cl, h2.te), omnigent #6283, nono's h2 tests", Layers: []string{"form", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			const name, no = "inspected.test", "servers that are kept refuse it by themselves, and one that does not is none"
			plain := ask(name)
			out := []escape.Try{good("a request", in, func() error { return stream(in, name, ask(name, [2]string{":path", "/ok/good32a"})...) })}
			for what, fields := range map[string][][2]string{
				"authority of a denied name":  ask(name, [2]string{":authority", "front32a.test"}),
				"authority with another port": ask(name, [2]string{":authority", name + ":8443"}),
				"a host field beside it":      ask(name, [2]string{"host", "front32a.test"}),
				"a whole address as the path": ask(name, [2]string{":path", "https://front32a.test/ok/x"}),
				"a path upwards":              ask(name, [2]string{":path", "/ok/../front32a"}),
				"a path upwards, encoded":     ask(name, [2]string{":path", "/ok/%2e%2e/front32a"}),
				"a path upwards, overlong":    ask(name, [2]string{":path", "/ok/%c0%ae%c0%ae/front32a"}),
			} {
				out = append(out, net1(what, func() error { return stream(in, name, fields...) }))
			}
			for what, fields := range map[string][][2]string{
				"an authority with a user":  ask(name, [2]string{":authority", "x@" + name}),
				"two authorities":           append(append([][2]string{}, plain...), [2]string{":authority", "front32a.test"}),
				"two paths":                 append(append([][2]string{}, plain...), [2]string{":path", "/front32a"}),
				"two methods":               append(append([][2]string{}, plain...), [2]string{":method", "DELETE"}),
				"a pseudo field at the end": append(append([][2]string{}, plain[:3]...), [2]string{"x-a", "b"}, plain[3]),
				"an unknown pseudo field":   append([][2]string{{":front32a", "x"}}, plain...),
				"a status in a request":     append([][2]string{{":status", "200"}}, plain...),
				"no method":                 plain[1:],
				"no path":                   plain[:3],
				"no scheme":                 append([][2]string{plain[0]}, plain[2:]...),
				"an empty path":             ask(name, [2]string{":path", ""}),
				"a path without a slash":    ask(name, [2]string{":path", "ok/x"}),
				"a star":                    ask(name, [2]string{":path", "*"}),
				"a space in the path":       ask(name, [2]string{":path", "/ok/x HTTP/1.1\r\nX: front32a"}),
				"a line in the method":      ask(name, [2]string{":method", "GET /front32a HTTP/1.1\r\n\r\nGET"}),
				"a line's words in it":      ask(name, [2]string{":method", "GET /front32a HTTP/1.1"}),
				"a method that is too long": ask(name, [2]string{":method", strings.Repeat("A", 9000) + "-front32a"}),
				"a length by another name":  ask(name, [2]string{"content_length", "5"}, [2]string{"x-a", "front32a"}),
				"chunks by another name":    ask(name, [2]string{"transfer_encoding", "chunked"}, [2]string{"x-a", "front32a"}),
				"a line in the authority":   ask(name, [2]string{":authority", name + "\r\nX: front32a"}),
				"a line in a field":         ask(name, [2]string{"x-a", "b\r\nX: front32a"}),
				"a NUL in a field":          ask(name, [2]string{"x-a", "b\x00"}),
				"a line in a field's name":  ask(name, [2]string{"x-a: b\r\nfront32a", "c"}),
				"a colon in a field's name": ask(name, [2]string{"x:a", "b"}),
				"a space in a field's name": ask(name, [2]string{"x a", "b"}),
				"an upper-case name":        ask(name, [2]string{"X-A", "b"}),
				"an empty name":             ask(name, [2]string{"", "b"}),
				"chunks":                    ask(name, [2]string{"transfer-encoding", "chunked"}),
				"a connection's field":      ask(name, [2]string{"connection", "x-a"}, [2]string{"x-a", "front32a"}),
				"an upgrade":                ask(name, [2]string{"upgrade", "websocket"}),
				"keep-alive":                ask(name, [2]string{"keep-alive", "timeout=5"}),
				"te of another kind":        ask(name, [2]string{"te", "gzip"}),
				"a length without a body":   ask(name, [2]string{":method", "POST"}, [2]string{"content-length", "10"}),
				"a length that is none":     ask(name, [2]string{":method", "POST"}, [2]string{"content-length", "+0"}),
				"CONNECT":                   {{":method", "CONNECT"}, {":authority", "front32a.test:443"}},
				"CONNECT with a path":       ask(name, [2]string{":method", "CONNECT"}),
				"extended CONNECT":          append(ask(name, [2]string{":method", "CONNECT"}), [2]string{":protocol", "connect-udp"}),
				"extended CONNECT, first":   append([][2]string{{":protocol", "websocket"}}, ask(name, [2]string{":method", "CONNECT"}, [2]string{":authority", "front32a.test"})...),
			} {
				t := net1(what, func() error { return stream(in, name, fields...) })
				t.Control, t.Why = escape.ByNobody, no
				out = append(out, t)
			}
			return out
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{
				found("nothing of it went up", !strings.Contains(sent, "front32a"), "%.900s", sent),
				found("control: the good one did", strings.Contains(sent, "good32a"), "%.900s", sent),
			}
		},
	}
}
