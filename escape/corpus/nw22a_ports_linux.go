package corpus

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"cloister/escape"
)

func nw22a() escape.Case {
	return escape.Case{
		ID: "NW-22a", Class: "names in requests", Attack: "userinfo, backslashes, fragments, percent escapes, other letters and ports that wrap round in targets and Hosts; CONNECT with a scheme, a Host of another, a body, a second one behind it",
		Source: "CVE-2025-47912, CVE-2026-25679 (net/url hosts); CVE-2025-22871", Layers: []string{"one canonical name", "form", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			get := func(target, host string) string { return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
			for _, target := range []string{
				"http://allowed.test@denied22.test/", "http://allowed.test:80@denied22.test/", "http://denied22.test\\@allowed.test/", "http://denied22.test#@allowed.test/", "http://denied22.test?@allowed.test/", "http://denied22.test%2f@allowed.test/",
				"http://%61llowed.test/", "http://allowed.test%00/", "http://allowed.test%2edenied22.test/", "http://\uff41llowed.test/", "http://allowed\u3002test/", "http://allowed.te\u017ft/", "http://allowed.test\u200b/", "http:///allowed.test/", "http://", "http:allowed.test/", "//denied22.test/",
				"http://allowed.test:22/", "http://allowed.test:0/", "http://allowed.test:65616/", "http://allowed.test:80:443/", "http://allowed.test: 80/", "http://allowed.test:-80/", "http://allowed.test:8\uff10/", "http://allowed.test:0x50/", "ws://denied22.test/", "HTTP://DENIED22.test/",
			} {
				out = append(out, net1("target "+strconv.QuoteToASCII(target), func() error { return raw(in, get(target, "denied22.test")) }))
			}
			for _, host := range []string{"denied22.test", "allowed.test@denied22.test", "allowed.test, denied22.test", "allowed.test:22", "allowed.test:65616", "%61llowed.test", "allowed.test/../", "allowed.test\\", "allowed.test#", "allowed.test;", "", " "} {
				out = append(out, net1("Host "+strconv.QuoteToASCII(host)+" on port 80", func() error { return talk("tcp", to(in, "allowed.test:80"), get("/", host)) }))
			}
			for name, text := range map[string]string{
				"with a scheme":            "CONNECT http://allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
				"with a path":              "CONNECT allowed.test:443/x HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
				"with userinfo":            "CONNECT x@allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
				"to a denied one, Host of": "CONNECT denied22.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
				"with two targets":         "CONNECT allowed.test:443 denied22.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
				"of version 3":             "CONNECT allowed.test:443 HTTP/3.0\r\nHost: allowed.test:443\r\n\r\n",
				"in small letters":         "connect denied22.test:443 HTTP/1.1\r\nHost: denied22.test\r\n\r\n",
				"behind a bare line feed":  "CONNECT denied22.test:443 HTTP/1.1\nHost: denied22.test\n\n",
				"as HTTP/2":                "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			} {
				out = append(out, net1("CONNECT "+name, func() error { return raw(in, text) }))
			}
			return append(out,
				tunnel("CONNECT as it should be, to a denied one", "denied22.test:443", in),
				net1("within a tunnel to port 80, a Host of another", func() error {
					return inTunnel(in, "allowed.test:80", get("/", "denied22.test"))
				}),
				net1("within a tunnel to port 80, another CONNECT", func() error {
					return inTunnel(in, "allowed.test:80", "CONNECT denied22.test:443 HTTP/1.1\r\nHost: denied22.test\r\n\r\n")
				}),
				net1("within a tunnel, TLS for another", func() error { return inTunnel(in, "allowed.test:443", string(clientHello("denied22.test"))) }),
				must("CONNECT allowed.test", in, "allowed.test:443"))
		},
		Due: []escape.Due{{Kind: "net.connect", Host: "denied22.test", Verdict: "deny", Some: true}},
		Host: func(w *escape.World) []escape.Finding {
			// Letters of another width are the same name, once and for all: the server
			// gets the one spelling.
			before := len(w.Upstream())
			res := w.Outcome(w.Kind.Shown(w.Self), w.Self, "say", "tcp:allowed.test:80", "GET /width22 HTTP/1.1\r\nHost: \uff41llowed.test\r\n\r\n")
			w.Until(patient, func() bool { return strings.Contains(strings.Join(w.Upstream()[before:], ""), "width22") })
			sent := strings.Join(w.Upstream()[before:], "\n")
			return []escape.Finding{
				found("one spelling goes up, or none", !strings.Contains(sent, "uff41") && !strings.Contains(sent, `\xef`), "%s", sent),
				found("control: it went, as allowed.test", strings.Contains(sent, "width22") && strings.Contains(sent, `Host: allowed.test\r\n`), "%s %s", sent, res.Stdout),
			}
		},
	}
}

// inTunnel opens a tunnel, which must come off, and says something in it.
func inTunnel(in escape.Inside, target, text string) error {
	if in.Control {
		return raw(in, text)
	}
	c, err := net.DialTimeout("tcp", proxyAt, patience)
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", target); err != nil {
		return plain(err)
	}
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 200") {
		return fmt.Errorf("the tunnel is not there: %w: %.100q", err, buf[:n])
	}
	return converse(c, text)
}
