package corpus

import (
	"time"

	"cloister/escape"
)

func nw42() escape.Case {
	return escape.Case{
		ID: "NW-42", Class: "proxy identity", Attack: "use, from one cloister, what another that runs beside it was allowed: a session is its socket, so there is no token to take",
		Source: "OpenShell (token bound to a sandbox)", Layers: []string{"net", "policy"}, Needs: map[escape.Layer]string{escape.Net: "the proxy and every name are the gate's"},
		Host: func(w *escape.World) []escape.Finding {
			ask := []string{w.Self, "fetch", "ask42.test:443"}
			flags := []string{"--expose", w.Self}
			beside := make(chan escape.Result, 1)
			go func() {
				beside <- w.Outcome(append(flags, "--allow", "ask42.test", "--timeout", "90s"), "sh", "-c", w.Self+" fetch ask42.test:443; sleep 4")
			}()
			w.Until(time.Second, func() bool { return false })
			other := w.Outcome(flags, ask...)
			first := <-beside
			after := w.Outcome(flags, ask...)
			return []escape.Finding{
				found("the other is refused", other.Status == 3, "status %d: %s%s", other.Status, other.Stdout, other.Stderr),
				found("after its end nobody has it", after.Status == 3, "status %d: %s%s", after.Status, after.Stdout, after.Stderr),
				found("control: the one that was allowed is let out", first.Stdout == "502\n" || first.Stdout == "200\n", "status %d: %s%s", first.Status, first.Stdout, first.Stderr),
			}
		},
	}
}
