package corpus

import (
	"strings"

	"cloister/escape"
)

func po12() escape.Case {
	return escape.Case{
		ID: "PO-12", Class: "inheritance", Attack: "run cloister within a cloister, with wider words: there is no guardian to ask and no enclosure to be had",
		Source: "CVE-2026-32048 (a child weaker than its parent)", Layers: []string{"view", "seccomp"},
		Host: func(w *escape.World) []escape.Finding {
			flags := []string{"--expose", w.Cloister}
			nested := w.Outcome(flags, w.Cloister, "run", "--allow", "denied12.test", "--", "sh", "-c", "echo nested")
			stop := w.Outcome(flags, w.Cloister, "guardian", "status")
			parent := w.Outcome(nil, "echo", "outer")
			return []escape.Finding{
				found("it does not start", nested.Status == 125 && !strings.Contains(nested.Stdout, "nested"), "status %d: %s%s", nested.Status, nested.Stdout, nested.Stderr),
				found("there is no guardian to ask", stop.Status == 1, "status %d: %s%s", stop.Status, stop.Stdout, stop.Stderr),
				found("control: the outer one starts", parent.Status == 0 && parent.Stdout == "outer\n", "status %d: %s", parent.Status, parent.Stderr),
			}
		},
	}
}
