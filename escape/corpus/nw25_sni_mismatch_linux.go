package corpus

import (
	"crypto/tls"
	"net"
	"strconv"
	"strings"

	"cloister/escape"
)

func nw25() escape.Case {
	return escape.Case{
		ID: "NW-25", Class: "SNI mismatch", Attack: "TLS to an allowed name with the SNI of another, none, an address or an empty one: closed before a byte goes up",
		Source: "gh-aw-firewall #8878", Layers: []string{"form"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, sni := range []string{"denied25.test", "other.test", "", "127.0.0.1", "allowed.test.denied25.test", "sub.wild.test"} {
				out = append(out, net1("SNI "+strconv.Quote(sni), func() error { return handshake(to(in, "allowed.test:443"), sni) }))
			}
			return out
		},
		Host: func(w *escape.World) []escape.Finding {
			sent := strings.Join(w.Upstream(), "\n")
			return []escape.Finding{found("no byte of it went up", !strings.Contains(sent, "denied25"), "%.500s", sent)}
		},
	}
}

// handshake begins TLS with a name. Whatever the server says is success: these
// servers have no certificate.
func handshake(addr, sni string) error {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	return converse(c, string(clientHello(sni)))
}

// clientHello is a ClientHello as a library writes it.
func clientHello(sni string) []byte {
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		defer b.Close()
		config := &tls.Config{ServerName: sni, InsecureSkipVerify: true} // only the first message is wanted
		_ = tls.Client(b, config).Handshake()                            // it ends when nobody answers
	}()
	buf := make([]byte, 8192)
	n, err := a.Read(buf)
	if err != nil {
		return nil
	}
	if n < 9 { // the record's head came alone
		m, err := a.Read(buf[n:])
		if err != nil {
			return nil
		}
		n += m
	}
	return buf[:n]
}
