package corpus

import (
	"cloister/escape"
)

func sc05() escape.Case {
	return escape.Case{
		ID: "SC-05", Class: "malicious postinstall", Attack: "a package whose install script makes the attempts of this corpus, run by npm",
		Source: "SC-05; event-stream, shai-hulud", Layers: []string{"view", "landlock", "seccomp", "net", "policy"},
		Host: func(w *escape.World) []escape.Finding {
			ids := []string{"FS-01", "FS-03", "FS-08", "FS-10", "FS-16", "NW-01", "NW-09", "NW-10", "PR-01", "PR-07", "PR-09", "PR-27"}
			line := w.Self + " attempts"
			for _, id := range ids {
				line += " " + id
			}
			if err := w.Write("evil/package.json", `{"name":"evil","version":"1.0.0","scripts":{"postinstall":"`+line+` > out.json 2>&1"}}`); err != nil {
				return escape.NoHost("make the package", err)
			}
			defer clean(w.Project+"/evil", w.Project+"/node_modules", w.Project+"/package.json", w.Project+"/package-lock.json")
			// FS-09 took it away, and gVisor looks for what is to be renamed before it refuses.
			if err := w.Write(".git/hooks/pre-push.sample", "#!/bin/sh\n"); err != nil {
				return escape.NoHost("put a sample back", err)
			}
			know, err := w.Know()
			if err != nil {
				return escape.NoHost("tell what is known", err)
			}
			res := w.Outcome([]string{"--expose", w.Self, "-e", escape.EnvInside + "=" + know}, "sh", "-c", "cd evil && npm install --no-audit --no-fund --offline; cat out.json")
			answers, other := escape.ReadAnswers(res.Stdout)
			var out []escape.Finding
			seen := map[string]bool{}
			for _, a := range answers {
				seen[a.Case] = true
				// npm sets variables of its own, which are no secret of the host.
				if a.State != escape.Held && !(a.Case == "PR-27" && (a.Try == "any other name" || a.Try == "NODE_OPTIONS")) {
					out = append(out, found(a.Case+" "+a.Try, false, "%s: %s", a.State, a.Text))
				}
			}
			return append(out, found("control: every case was tried", len(seen) == len(ids), "%d of %d cases; status %d: %.300s %.600s", len(seen), len(ids), res.Status, other, res.Stderr))
		},
	}
}
