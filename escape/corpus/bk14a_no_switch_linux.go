package corpus

import (
	"bytes"
	"os"

	"cloister/escape"
)

func bk14a() escape.Case {
	return escape.Case{
		ID: "BK-14a", Class: "no switch", Attack: "look in the ordinary build for the names by which a test build leaves layers out, and start it with them set",
		Source: "own corpus: a switch that a release has is one that somebody sets", Layers: []string{"build tag"},
		Host: func(w *escape.World) []escape.Finding {
			if w.Off == "" {
				return []escape.Finding{found("the build with cloister_layeroff", false, "it was not given: -off")}
			}
			ordinary, err := os.ReadFile(w.Cloister)
			if err != nil {
				return escape.NoHost("read the ordinary build", err)
			}
			test, err := os.ReadFile(w.Off)
			if err != nil {
				return escape.NoHost("read the test build", err)
			}
			var out []escape.Finding
			for _, name := range []string{"CLOISTER_LAYER_OFF", "CLOISTER_LAYER_PROBE", "CLOISTER_LANDLOCK_ABI"} {
				out = append(out,
					found(name+" is not in the ordinary build", !bytes.Contains(ordinary, []byte(name)), "%s", w.Cloister),
					found("control: "+name+" is in the test build", bytes.Contains(test, []byte(name)), "%s", w.Off))
			}
			// Seccomp 2 is a filter, NoNewPrivs 1 the promise not to gain: proc_pid_status(5).
			const look = "grep -c -e '^Seccomp:.2$' -e '^NoNewPrivs:.1$' -e '^CapEff:.0*$' /proc/self/status; ls -A " + "\"$0\""
			for _, left := range escape.Native.Layers() {
				layer := string(left)
				w.Extra["CLOISTER_LAYER_OFF"] = layer
				res := w.Outcome(nil, "sh", "-c", look, w.Outside)
				out = append(out, found("it does not obey "+layer, res.Stdout == "3\n", "status %d: %s%s", res.Status, res.Stdout, res.Stderr))
			}
			delete(w.Extra, "CLOISTER_LAYER_OFF")
			return out
		},
	}
}
