package corpus

import (
	"fmt"
	"net"
	"strings"
	"time"

	"cloister/escape"
)

func nw31() escape.Case {
	return escape.Case{
		ID: "NW-31", Class: "keep-alive reuse", Attack: "a second and a pipelined request on one connection, to another host",
		Source: "agentcage #214", Layers: []string{"form", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			first := "GET /first31 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
			second := func(host string) string { return "GET /second31 HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
			ask := func(addr, one, two string, pipelined bool) func() error {
				return func() error {
					c, err := net.DialTimeout("tcp", to(in, addr), patience)
					if err != nil {
						return plain(err)
					}
					defer c.Close()
					if in.Control {
						return converse(c, two)
					}
					if pipelined {
						one += two
					}
					if err := firstAnswer(c, one); err != nil {
						return fmt.Errorf("the first request: %w", err)
					}
					if pipelined {
						two = ""
					}
					return converse(c, two)
				}
			}
			return []escape.Try{
				net1("a second to a denied host", ask("allowed.test:80", first, second("denied31.test"), false)),
				net1("a second to another allowed host", ask("allowed.test:80", first, second("other.test"), false)),
				net1("pipelined to a denied host", ask("allowed.test:80", first, second("denied31.test"), true)),
				net1("on the proxy, a second to a denied host", ask(proxyAt, "GET http://allowed.test/first31 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "GET http://denied31.test/second31 HTTP/1.1\r\nHost: denied31.test\r\n\r\n", false)),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{
				found("no second one went up", !strings.Contains(sent, "denied31"), "%.900s", sent),
				found("control: the first one did", strings.Contains(sent, "first31"), "%.900s", sent),
			}
		},
	}
}

// firstAnswer asks and reads one whole answer of the test's server.
func firstAnswer(c net.Conn, text string) error {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(text)); err != nil {
		return err
	}
	var got []byte
	for !strings.HasSuffix(string(got), "\r\n\r\nsunk") {
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil {
			return fmt.Errorf("after %q: %w", got, err)
		}
		got = append(got, b[0])
	}
	return nil
}
