package corpus

import (
	"strings"

	"cloister/escape"
)

func pr20() escape.Case {
	return escape.Case{
		ID: "PR-20", Class: "memory bomb", Attack: "touch more memory than --memory says; where no cgroup can be made the run does not start",
		Source: "PR-20", Layers: []string{"cgroup, or no start"},
		Host: func(w *escape.World) []escape.Finding {
			size, limit := "192", "48MiB"
			if w.Kind.Machine != "" { // which has 448 MiB at least
				size, limit = "768", "512MiB"
			}
			hog := []string{w.Self, "hog", size}
			flags := []string{"--expose", w.Self}
			free := w.Outcome(flags, hog...)
			bound := w.Outcome(append(flags, "--memory", limit), hog...)
			held := bound.Status == 137 || bound.Status == 125 && strings.Contains(bound.Stderr, "cgroup-limits")
			again := w.Outcome(nil, "true")
			return []escape.Finding{
				found("control: without the limit it may", free.Status == 0, "status %d: %s", free.Status, free.Stderr),
				found("it is ended, or does not start", held, "status %d: %s", bound.Status, bound.Stderr),
				found("the next run starts", again.Status == 0, "status %d: %s", again.Status, again.Stderr),
			}
		},
	}
}
