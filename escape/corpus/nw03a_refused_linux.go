package corpus

import (
	"net"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// flood03 is how many datagrams go to one destination.
const flood03 = 3000

func nw03a() escape.Case {
	return escape.Case{
		ID: "NW-03a", Class: "datagrams without a record", Source: "independent audit: refused UDP left no record", Layers: []string{"net", "audit"},
		Attack: "try ways out by UDP, one of them behind a flood of datagrams: each destination is in the record, a bounded number of times, and each datagram is counted",
		Flags:  func(*escape.World) []string { return nil },
		Tries: func(in escape.Inside) []escape.Try {
			held := []error{unix.EPERM}
			return []escape.Try{
				{Name: "one datagram to port 443", Held: held, Do: func() error { return datagrams(to(in, "203.0.113.31:443"), 1) }},
				{Name: "one to another address", Held: held, Do: func() error { return datagrams(to(in, "203.0.113.32:5353"), 1) }},
				{Name: "a flood of them", Held: held, Do: func() error { return datagrams(to(in, "203.0.113.33:4433"), flood03) }},
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			records, sum := map[string]int{}, 0
			w.Until(patient, func() bool {
				events, err := w.Events()
				own := ""
				for _, e := range events {
					if e.Resource == "203.0.113.31:443" {
						own = e.SessionID
					}
				}
				clear(records)
				sum = 0
				for _, e := range events {
					if e.SessionID == own && e.Kind == "net.connect" && e.Verdict == "deny" && e.Via == "udp" {
						records[e.Resource]++
						sum += max(1, int(e.Suppressed))
					}
				}
				return err == nil && sum >= flood03+2
			})
			return []escape.Finding{
				found("each destination is in the record", records["203.0.113.31:443"] == 1 && records["203.0.113.32:5353"] == 1 && records["203.0.113.33:4433"] > 0, "%v", records),
				found("a bounded number of times", records["203.0.113.33:4433"] <= 2 && records[""] <= 1, "%v", records),
				found("control: each datagram is counted", sum == flood03+2, "%d of %d", sum, flood03+2),
			}
		},
	}
}

// datagrams sends to one address from a socket that is not connected, each of them
// whatever became of the one before.
func datagrams(addr string, n int) error {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", ":0")
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	for range n {
		if _, serr := c.WriteTo([]byte("hello NW-03a"), to); serr != nil {
			err = serr
		}
	}
	return plain(err)
}
