package corpus

import "cloister/escape"

func lg05() escape.Case {
	return escape.Case{
		ID: "LG-05", Class: "reconcile", Attack: "compare what the servers behind allowed names were sent with the record: every connection has its leave",
		Source: "LG-05", Layers: []string{"audit"},
		Host: func(w *escape.World) []escape.Finding {
			before, err := w.Events()
			if err != nil {
				return escape.NoHost("read the record", err)
			}
			sunk := len(w.Upstream())
			script := ""
			for _, host := range []string{"allowed.test:80", "other.test:80", "denied05.test:80", "allowed.test:443", "sub.wild.test:80"} {
				script += w.Self + " fetch " + host + "; "
			}
			res := w.Outcome([]string{"--expose", w.Self}, "sh", "-c", script+"true")
			var allowed, closed int
			var all string
			w.Until(patient, func() bool {
				events, err := w.Events()
				if err != nil {
					return false
				}
				allowed, closed, all = 0, 0, ""
				for _, e := range events[len(before):] {
					all += string(e.Kind) + " " + e.Action + " " + e.Verdict + " " + e.Resource + "\n"
					switch {
					case e.Kind == "net.connect" && e.Action == "connect" && e.Verdict == "allow":
						allowed++
					case e.Kind == "net.connect" && (e.Action == "close" || e.Action == "refuse"):
						closed++
					}
				}
				return len(w.Upstream())-sunk == 4 && closed >= 4
			})
			got := len(w.Upstream()) - sunk
			return []escape.Finding{
				found("it ran", res.Status == 0, "status %d: %s", res.Status, res.Stderr),
				found("control: the servers were reached", got > 0, "%d connections", got),
				found("each connection has its leave", got == allowed, "%d connections, %d allowed", got, allowed),
				found("each leave has its end", allowed == closed, "%d allowed, %d ended: %s", allowed, closed, all),
			}
		},
	}
}
