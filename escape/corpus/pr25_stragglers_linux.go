package corpus

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/escape"
)

func pr25() escape.Case {
	return escape.Case{
		ID: "PR-25", Class: "stragglers", Attack: "leave a daemon behind: setsid, double fork, ignored signals; then end with 0",
		Source: "sandlock #238, llxprt #3449 (alive for 2 days)", Layers: []string{"pid namespace"},
		Host: func(w *escape.World) []escape.Finding {
			mark := "ESCAPE_PR25=" + filepath.Base(w.Base)
			daemon := "(trap '' HUP TERM INT; export " + mark + "; setsid sh -c 'trap \"\" HUP TERM; sleep 777 & sleep 778' </dev/null >/dev/null 2>&1 &) ; exit 0"
			res := w.Outcome(nil, "sh", "-c", daemon)
			gone := w.Until(5*time.Second, func() bool { return len(withEnv(mark)) == 0 })
			left := withEnv(mark)
			control, err := w.Exec("sh", "-c", daemon)
			there := w.Until(patient, func() bool { return len(withEnv(mark)) > 0 })
			killAll(w, mark)
			return []escape.Finding{
				found("it ended", res.Status == 0, "status %d: %s", res.Status, res.Stderr),
				found("nothing is left after five seconds", gone, "%s", strings.Join(left, " ")),
				found("control: outside it stays", err == nil && control.Status == 0 && there, "%v %s", err, control.Stderr),
			}
		},
	}
}

// withEnv are the processes of the host with a word in their environment.
func withEnv(mark string) []string {
	found, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range found {
		if text, err := os.ReadFile(p); err == nil && bytes.Contains(text, []byte(mark)) {
			out = append(out, filepath.Base(filepath.Dir(p)))
		}
	}
	return out
}

func killAll(w *escape.World, mark string) {
	w.Until(patient, func() bool {
		left := withEnv(mark)
		for _, pid := range left {
			_, _ = w.Exec("kill", "-9", pid) // it may be gone
		}
		return len(left) == 0
	})
}
