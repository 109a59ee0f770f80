package egress

import (
	"context"
	"testing"

	"cloister/egress/internal/dns"
	"cloister/egress/internal/dnsmsg"
	"cloister/egress/verdict"
)

func FuzzDNS(f *testing.F) {
	f.Add([]byte("\x00\x4d\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x02ok\x04test\x00\x00\x01\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x4d\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02ok\x04test\x00\x00\x41\x00\x01"))
	f.Add([]byte("\x00\x4d\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	e, err := New(Config{Decider: yes{}, Journal: yes{}, Limits: Limits{Names: 64}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, size := range []int{dnsmsg.MinUDP, dns.MaxTCP} {
			out := e.dns.Answer(t.Context(), msg, size)
			if len(out) > size && len(out) > dnsmsg.Size {
				t.Fatalf("%d bytes for %d", len(out), size)
			}
			if out != nil && (len(out) < 12 || out[0] != msg[0] || out[1] != msg[1] || out[2]&0x80 == 0) {
				t.Fatalf("answer % x", out)
			}
		}
	})
}

type yes struct{}

func (yes) Decide(context.Context, verdict.Query) verdict.Answer {
	return verdict.Answer{Allow: true, Effect: "allow"}
}
func (yes) Closed(verdict.Flow)        {}
func (yes) Refused(verdict.Flow) error { return nil }
