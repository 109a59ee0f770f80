package corpus

import (
	"os"
	"strings"
	"time"

	"cloister/escape"
)

func nw43() escape.Case {
	return escape.Case{
		ID: "NW-43", Class: "live tunnel after deny", Attack: "hold a tunnel open while the rule that let it out is taken away",
		Source: "OpenShell (generations)", Layers: []string{"generations"},
		Host: func(w *escape.World) []escape.Finding {
			config := w.Base + "/config/cloister/config.yaml"
			text, err := os.ReadFile(config)
			if err != nil {
				return escape.NoHost("read the configuration", err)
			}
			held := make(chan escape.Result, 1)
			go func() {
				held <- w.Outcome([]string{"--expose", w.Self, "--timeout", "2m"}, w.Self, "hold", "other.test:443")
			}()
			open := w.Until(patient, func() bool {
				events, err := w.Events()
				if err != nil {
					return false
				}
				for _, e := range events {
					if e.Host == "other.test" && e.Verdict == "allow" && e.Kind == "net.connect" {
						return true
					}
				}
				return false
			})
			narrower := strings.Replace(string(text), "    - domain: other.test\n", "", 1)
			if err := w.Write(config, narrower); err != nil {
				return escape.NoHost("narrow the configuration", err)
			}
			began := time.Now()
			reload, rerr := w.Exec(w.Cloister, "guardian", "reload")
			res := <-held
			took := time.Since(began)
			if err := w.Write(config, string(text)); err != nil {
				return escape.NoHost("restore the configuration", err)
			}
			back, berr := w.Exec(w.Cloister, "guardian", "reload")
			return []escape.Finding{
				found("control: the tunnel was open", open && strings.Contains(res.Stdout, "open\n"), "%s%s", res.Stdout, res.Stderr),
				found("the reload", rerr == nil && reload.Status == 0 && berr == nil && back.Status == 0, "%s%s", reload.Stderr, back.Stderr),
				found("it was closed at once", strings.Contains(res.Stdout, "closed\n") && took < 30*time.Second, "after %v: %s%s", took, res.Stdout, res.Stderr),
			}
		},
	}
}
