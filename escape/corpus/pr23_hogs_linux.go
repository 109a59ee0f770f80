package corpus

import (
	"strings"
	"time"

	"cloister/escape"
)

func pr23() escape.Case {
	return escape.Case{
		ID: "PR-23", Class: "cpu, fd and inotify hogs", Attack: "spin on every processor, open descriptors and watches until it is refused, while another cloister starts and the guardian answers",
		Source: "PR-23", Layers: []string{"rlimits", "own guardian"},
		Host: func(w *escape.World) []escape.Finding {
			hog := make(chan escape.Result, 1)
			go func() { hog <- w.Outcome([]string{"--timeout", "8s", "--expose", w.Self}, w.Self, "hogs") }()
			// The hog needs a moment to become one: others start all the while.
			var other escape.Result
			var took time.Duration
			for began := time.Now(); time.Since(began) < 2*time.Second && other.Status == 0; {
				other = w.Outcome(nil, "true")
				took = max(took, other.Took)
			}
			began := time.Now()
			status, err := w.Exec(w.Cloister, "guardian", "status")
			answered := time.Since(began)
			res := <-hog
			return []escape.Finding{
				found("another cloister starts", other.Status == 0 && took < 30*time.Second, "status %d after %v: %s", other.Status, took, other.Stderr),
				found("the guardian answers", err == nil && status.Status == 0 && answered < 30*time.Second, "%v after %v", err, answered),
				found("control: the hog ran until its time was over", res.Took > 7*time.Second && strings.TrimSpace(res.Stdout) != "", "%v %s%s", res.Took, res.Stdout, res.Stderr),
			}
		},
	}
}
