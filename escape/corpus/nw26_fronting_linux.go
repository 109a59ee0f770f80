package corpus

import (
	"strings"

	"cloister/escape"
)

func nw26() escape.Case {
	return escape.Case{
		ID: "NW-26", Class: "fronting", Attack: "within TLS to an inspected name, ask for another: by Host, absolute target and :authority, also as a second request",
		Source: "gh-aw-firewall #8878, microsandbox #709, agentcage #214", Layers: []string{"form"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			const name = "inspected.test"
			get := func(target, host string) string { return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
			first := get("/ok/first26", name)
			one := func(what, text string) escape.Try {
				return net1(what, func() error { return within(in, name, text) })
			}
			h2 := func(what string, more ...[2]string) escape.Try {
				return net1("HTTP/2: "+what, func() error { return stream(in, name, ask(name, more...)...) })
			}
			return []escape.Try{
				good("a request", in, func() error { return within(in, name, first) }),
				good("HTTP/2: a request", in, func() error { return stream(in, name, ask(name)...) }),
				one("Host of a denied name", get("/ok/x", "front26.test")),
				one("Host of another allowed name", get("/ok/x", "allowed.test")),
				one("Host of another inspected name", get("/ok/x", "tenant.test")),
				one("Host with another port", get("/ok/x", name+":8443")),
				one("absolute target of a denied name", get("https://front26.test/ok/x", name)),
				one("absolute target of a denied name, the Host too", get("https://front26.test/ok/x", "front26.test")),
				one("absolute target of another scheme", get("http://"+name+"/ok/x", name)),
				one("user information in an absolute target", get("https://"+name+"@front26.test/ok/x", "front26.test")),
				one("HTTP/1.0 with the Host of a denied name", "GET /ok/x HTTP/1.0\r\nHost: front26.test\r\n\r\n"),
				net1("a second request", func() error { return within(in, name, first, get("/ok/second26", "front26.test")) }),
				h2(":authority of a denied name", [2]string{":authority", "front26.test"}),
				h2(":authority of another inspected name", [2]string{":authority", "tenant.test"}),
				h2("a path that is a whole address", [2]string{":path", "https://front26.test/ok/x"}),
			}
		},
		Due: []escape.Due{{Kind: "http.request", Host: "inspected.test", Verdict: "deny", Some: true}},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			named := false
			events, err := w.Events()
			for _, e := range events {
				named = named || e.Host == "inspected.test" && strings.Contains(e.Reason, "front26.test")
			}
			return []escape.Finding{
				found("no request for another name went up", !strings.Contains(sent, "front26"), "%.900s", sent),
				found("control: the good ones did", strings.Contains(sent, "first26"), "%.900s", sent),
				found("the record has both names", err == nil && named, "%v", err),
			}
		},
	}
}
