package corpus

import (
	"strings"

	"cloister/escape"
)

func nw32() escape.Case {
	return escape.Case{
		ID: "NW-32", Class: "HTTP/2 in plain text", Attack: "the preface on a plain port, an upgrade to h2c, extended CONNECT; HTTP/2 within TLS waits for inspection",
		Source: "omnigent #6283, OpenShell #652", Layers: []string{"form"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
			return []escape.Try{
				net1("the preface on port 80", func() error { return talk("tcp", to(in, "allowed.test:80"), preface) }),
				net1("the preface on the proxy", func() error { return raw(in, preface) }),
				{Name: "an upgrade to h2c is not passed on", Held: []error{escape.ErrNothing, escape.ErrRefused}, Do: func() error {
					if in.Control {
						return nil
					}
					return nothing(talk("tcp", "allowed.test:80", "GET /h2c32 HTTP/1.1\r\nHost: allowed.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"))
				}},
				net1("CONNECT within a plain connection", func() error {
					return talk("tcp", to(in, "allowed.test:80"), "CONNECT denied32.test:443 HTTP/1.1\r\nHost: denied32.test:443\r\n\r\n")
				}),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{found("no upgrade and no preface went up", len(unwanted(sent, "h2c", "PRI *", "denied32")) == 1 && strings.Contains(sent, "h2c32") || len(unwanted(sent, "Upgrade: h2c", "PRI *", "denied32")) == 0, "%.900s", sent)}
		},
	}
}

// nothing is a try whose success changes nothing: its effect is looked for
// elsewhere.
func nothing(err error) error {
	if err == nil {
		return escape.ErrNothing
	}
	return err
}
