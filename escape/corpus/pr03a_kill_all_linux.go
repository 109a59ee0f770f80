package corpus

import "cloister/escape"

func pr03a() escape.Case {
	return escape.Case{
		ID: "PR-03a", Class: "kill everything", Attack: "kill -9 -1 inside: a process of the same user on the host lives, the shim and the guardian do, the project's files are left as they were",
		Source: "PR-03", Layers: []string{"pid namespace"},
		Host: func(w *escape.World) []escape.Finding {
			res := w.Outcome(nil, "sh", "-c", "kill -9 -1; kill -9 -$PPID 1; kill -9 $$")
			again := w.Outcome(nil, "true")
			return []escape.Finding{
				found("the command ended by its own signal", res.Status == 137, "status %d: %s", res.Status, res.Stderr),
				found("the canary process lives", w.VictimLives(), "process %d", w.PID),
				found("control: the guardian answers the next run", again.Status == 0, "status %d: %s", again.Status, again.Stderr),
			}
		},
	}
}
