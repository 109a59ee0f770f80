package corpus

import (
	"strings"

	"cloister/escape"
)

func nw33() escape.Case {
	return escape.Case{
		ID: "NW-33", Class: "WebSocket", Attack: "101 that nobody asked for or with a wrong key, upgrades that are no whole handshake, bytes after a good one that are no frames",
		Source: "OpenShell #652", Layers: []string{"form", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			const name = "inspected.test"
			get := func(path, fields string) string {
				return "GET /ok/" + path + " HTTP/1.1\r\nHost: " + name + "\r\n" + fields + "\r\n"
			}
			const key, version = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", "Sec-WebSocket-Version: 13\r\n"
			const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
			whole := get("websocket", upgrade+key+version)
			out := []escape.Try{
				good("a whole handshake and a frame", in, func() error {
					return within(in, name, whole, "\x81\x84\x00\x00\x00\x00good")
				}),
				net1("101 that nobody asked for", func() error { return within(in, name, get("unasked", "")) }),
				net1("101 with the wrong key", func() error { return within(in, name, get("wrong", upgrade+key+version)) }),
			}
			for what, text := range map[string]string{
				"without a key":            get("websocket", upgrade+version),
				"with two keys":            get("websocket", upgrade+key+key+version),
				"with a short key":         get("websocket", upgrade+"Sec-WebSocket-Key: AAAA\r\n"+version),
				"without a version":        get("websocket", upgrade+key),
				"without Connection":       get("websocket", "Upgrade: websocket\r\n"+key+version),
				"to two protocols":         get("websocket", "Connection: Upgrade\r\nUpgrade: websocket, tunnel33\r\n"+key+version),
				"to another protocol":      get("websocket", "Connection: Upgrade\r\nUpgrade: tunnel33\r\n"+key+version),
				"to TLS":                   get("websocket", "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n"),
				"by POST":                  "POST /ok/websocket HTTP/1.1\r\nHost: " + name + "\r\nContent-Length: 0\r\n" + upgrade + key + version + "\r\n",
				"with a body":              "GET /ok/websocket HTTP/1.1\r\nHost: " + name + "\r\nContent-Length: 5\r\n" + upgrade + key + version + "\r\nbad33",
				"below a path of no rule":  strings.Replace(whole, "/ok/websocket", "/denied33", 1),
				"in HTTP/1.0":              strings.Replace(whole, "HTTP/1.1", "HTTP/1.0", 1),
				"for a name that is other": strings.Replace(whole, "Host: "+name, "Host: denied33.test", 1),
			} {
				out = append(out, escape.Try{Name: "an upgrade " + what, Held: gone(), Do: func() error { return within(in, name, text) }})
			}
			for what, bytes := range map[string]string{
				"a request":                        "GET /bad33 HTTP/1.1\r\nHost: denied33.test\r\n\r\n",
				"a frame without a mask":           "\x81\x05bad33",
				"a reserved bit":                   "\xc1\x85\x00\x00\x00\x00bad33",
				"another reserved bit":             "\xa1\x85\x00\x00\x00\x00bad33",
				"a kind that is none":              "\x83\x85\x00\x00\x00\x00bad33",
				"a control frame in parts":         "\x09\x85\x00\x00\x00\x00bad33",
				"a control frame that is too long": "\x89\xfe\x00\x85\x00\x00\x00\x00" + strings.Repeat("bad33", 27),
				"a continuation of nothing":        "\x80\x85\x00\x00\x00\x00bad33",
				"a length in a longer form":        "\x81\xfe\x00\x05\x00\x00\x00\x00bad33",
				"a length with its highest bit":    "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00bad33",
				"TLS":                              "\x16\x03\x01\x00\x05bad33",
			} {
				out = append(out, net1("after the handshake "+what, func() error { return within(in, name, whole, bytes) }))
			}
			return append(out, net1("after the end a frame", func() error {
				return within(in, name, whole, "\x88\x80\x00\x00\x00\x00\x81\x85\x00\x00\x00\x00bad33")
			}))
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{
				found("no byte of it went up", len(unwanted(sent, "bad33", "denied33", "tunnel33")) == 0, "%.1500s", sent),
				found("control: the good frame did", strings.Contains(sent, "good"), "%.900s", sent),
			}
		},
	}
}
