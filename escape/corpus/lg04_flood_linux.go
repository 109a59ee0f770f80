package corpus

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"cloister/escape"
)

// flood04 is how often a denied name is asked for.
const flood04 = 20_000

func lg04() escape.Case {
	return escape.Case{
		ID: "LG-04", Class: "flood", Attack: "a denied name is asked for 20,000 times in one session: the record grows by a bounded number of lines, whose counts add up to all of them",
		Source: "Firecracker's production host set-up: the guest controls the volume of logs", Layers: []string{"audit"}, Slow: 60,
		Flags: func(*escape.World) []string { return nil },
		Needs: map[escape.Layer]string{escape.Net: "without the gate there is nobody to ask"},
		Tries: func(in escape.Inside) []escape.Try {
			why := "outside there is no gate, and nothing is recorded"
			return []escape.Try{{Name: "ask 20,000 times", Held: []error{escape.ErrRefused}, Control: escape.ByNobody, Why: why, Do: func() error {
				if in.Control {
					return errors.New("not made outside")
				}
				return flood("flood04.test.")
			}}}
		},
		Host: func(w *escape.World) []escape.Finding {
			records, sum, bytes := 0, 0, 0
			all := func() bool {
				records, sum, bytes = 0, 0, 0
				events, err := w.Events()
				if err != nil {
					return false
				}
				for _, e := range events {
					if e.Kind == "net.dns" && e.Host == "flood04.test" && e.Verdict == "deny" {
						records++
						bytes += len(e.Reason) + len(e.Rule) + 600
						sum += max(1, int(e.Suppressed))
					}
				}
				return sum >= flood04
			}
			w.Until(patient, all)
			return []escape.Finding{
				found("a bounded number of records", records > 0 && records < 4000, "%d", records),
				found("control: they add up to what was asked", sum == flood04, "%d of %d; one by one it would be %d KiB more", sum, flood04, (flood04-records)*600>>10),
			}
		},
	}
}

// flood asks for one name again and again, each time when the last one was answered.
func flood(name string) error {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return err
	}
	c, err := net.Dial("udp", "198.18.0.1:53")
	if err != nil {
		return err
	}
	defer c.Close()
	answer := make([]byte, 1500)
	for i := range flood04 {
		m := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: uint16(i), RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: n, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
		}
		text, err := m.Pack()
		if err != nil {
			return err
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
		if _, err := c.Write(text); err != nil {
			return err
		}
		k, err := c.Read(answer)
		if err != nil {
			return fmt.Errorf("question %d: %w", i, err)
		}
		var got dnsmessage.Message
		if err := got.Unpack(answer[:k]); err != nil {
			return err
		}
		if got.RCode == dnsmessage.RCodeSuccess && strings.HasPrefix(got.Questions[0].Name.String(), "flood04") {
			return nil // it was allowed
		}
	}
	return escape.ErrRefused
}
