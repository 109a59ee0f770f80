package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func fs04a() escape.Case {
	return escape.Case{
		ID: "FS-04a", Class: "links in what the host writes", Attack: "put a link where --report is written when the run ends, and move the folder that it lies in: cloister writes the report, and nothing outside",
		Source: "attack on this code; Flatpak GHSA-8688-9x26-hhxj (the privileged side follows)", Layers: []string{"launcher"},
		Host: func(w *escape.World) []escape.Finding {
			target := w.Outside + "/canary"
			was, err := os.ReadFile(target)
			if err != nil {
				return escape.NoHost("read the canary", err)
			}
			name := w.Project + "/report04.json"
			defer clean(name, w.Project+"/rep04", w.Project+"/rep04b", w.Outside+"/out.json")
			var out []escape.Finding
			if err := os.MkdirAll(w.Project+"/rep04", 0o755); err != nil {
				return escape.NoHost("make a folder", err)
			}
			for what, try := range map[string][2]string{
				"a link at the name":             {name, "rm -f report04.json; ln -s " + target + " report04.json"},
				"a link in place of the folder":  {w.Project + "/rep04/out.json", "mv rep04 rep04b; ln -s " + w.Outside + " rep04"},
				"a report of the agent's making": {name, "echo '{\"exit_status\": 0}' >report04.json; exit 7"},
			} {
				res := w.Outcome([]string{"--report", try[0]}, "sh", "-c", try[1])
				now, err := os.ReadFile(target)
				out = append(out, found(what+": the file outside is as it was", err == nil && string(now) == string(was) && !exists(w.Outside+"/out.json"), "%v %q; %s", err, now, res.Stderr))
				if try[0] == name {
					text, err := os.ReadFile(name)
					out = append(out, found(what+": the report is cloister's", err == nil && strings.Contains(string(text), "duration_ms"), "%v %q", err, text))
				}
			}
			// What a program does that writes by name.
			if err := os.Symlink(target, w.Project+"/link04"); err != nil {
				return escape.NoHost("make the control", err)
			}
			defer clean(w.Project + "/link04")
			control := os.WriteFile(w.Project+"/link04", []byte("through\n"), 0o644)
			now, err := os.ReadFile(target)
			out = append(out, found("control: who writes by name writes outside", control == nil && err == nil && string(now) == "through\n", "%v %q", control, now))
			if err := os.WriteFile(target, was, 0o644); err != nil {
				return escape.NoHost("mend the canary", err)
			}
			return out
		},
	}
}
