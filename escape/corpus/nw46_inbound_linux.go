package corpus

import (
	"errors"
	"net"
	"os"
	"time"

	"cloister/escape"
)

func nw46() escape.Case {
	return escape.Case{
		ID: "NW-46", Class: "inbound exposure", Attack: "listen on every address inside; connect from the host on every address of its own",
		Source: "NW-46", Layers: []string{"net"},
		Host: func(w *escape.World) []escape.Finding {
			free, err := net.Listen("tcp", ":0") // two corpora may run at once
			if err != nil {
				return escape.NoHost("find a port", err)
			}
			_, port, err := net.SplitHostPort(free.Addr().String())
			if err = errors.Join(err, free.Close()); err != nil {
				return escape.NoHost("find a port", err)
			}
			marks := []string{w.Project + "/listening46", w.Outside + "/listening46"}
			defer clean(marks...)
			reach := func() bool {
				for _, host := range []string{"127.0.0.1", "::1", w.HostIP} {
					if c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), time.Second); err == nil {
						c.Close()
						return true
					}
				}
				return false
			}
			listen := func(start func(mark string) escape.Result, mark string) (there, reached bool) {
				done := make(chan escape.Result, 1)
				go func() { done <- start(mark) }()
				there = w.Until(patient, func() bool { return exists(mark) })
				reached = reach()
				_ = os.Remove(mark) // it ends when this is gone
				<-done
				return there, reached
			}
			inside, reached := listen(func(mark string) escape.Result {
				return w.Outcome([]string{"--expose", w.Self, "--timeout", "90s"}, w.Self, "listen", port, mark)
			}, marks[0])
			outside, control := listen(func(mark string) escape.Result {
				res, err := w.Exec(w.Self, "listen", port, mark)
				if err != nil {
					res.Stderr += err.Error()
				}
				return res
			}, marks[1])
			return []escape.Finding{
				found("it listens inside", inside, "it did not say so"),
				found("the host does not reach it", !reached, "it was reached"),
				found("control: outside it is reached", outside && control, "listening %v, reached %v", outside, control),
			}
		},
	}
}
