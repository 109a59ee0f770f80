package corpus

import (
	"net"
	"strings"
	"time"

	"cloister/escape"
)

func nw28() escape.Case {
	return escape.Case{
		ID: "NW-28", Class: "split ClientHello", Attack: "the SNI of a denied name split over segments and over records, behind 16 KiB of padding, or never whole",
		Source: "azure #1826 (SNI after byte 1024)", Layers: []string{"form"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			bad := clientHello("denied28.test")
			send := func(parts ...[]byte) func() error {
				return func() error {
					c, err := net.DialTimeout("tcp", to(in, "allowed.test:443"), patience)
					if err != nil {
						return plain(err)
					}
					defer c.Close()
					for _, p := range parts[:len(parts)-1] {
						if _, err := c.Write(p); err != nil {
							return plain(err)
						}
						pause := time.NewTimer(20 * time.Millisecond)
						<-pause.C
					}
					return converse(c, string(parts[len(parts)-1]))
				}
			}
			record := func(body []byte) []byte {
				return append([]byte{22, 3, 1, byte(len(body) >> 8), byte(len(body))}, body...)
			}
			half := 60
			return []escape.Try{
				net1("over two segments", send(bad[:half], bad[half:])),
				net1("over two records", send(append(record(bad[5:half]), record(bad[half:])...))),
				net1("a byte at a time at first", send(bad[:1], bad[1:2], bad[2:3], bad[3:4], bad[4:5], bad[5:6], bad[6:])),
				net1("over a hundred records", func() error {
					var all []byte
					for _, b := range bad[5:] {
						all = append(all, record([]byte{b})...)
					}
					return send(all)()
				}),
				net1("a record of length 0 first", send(append(record(nil), bad...))),
				net1("SSLv2 form", send([]byte("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10allowed.testdenied28.test..............."))),
				net1("an alert first", send(append([]byte{21, 3, 1, 0, 2, 1, 0}, bad...))),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{found("no byte of it went up", !strings.Contains(sent, "denied28"), "%.500s", sent)}
		},
	}
}
