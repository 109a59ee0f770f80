package corpus

import (
	"os"

	"cloister/escape"
)

func po03() escape.Case {
	return escape.Case{
		ID: "PO-03", Class: "bad reload", Attack: "reload a broken, an empty and a vanished configuration: never more is allowed than before",
		Source: "CVE-2025-66479 (an empty list allowed all)", Layers: []string{"policy", "loader"},
		Host: func(w *escape.World) []escape.Finding {
			config := w.Base + "/config/cloister/config.yaml"
			good, err := os.ReadFile(config)
			if err != nil {
				return escape.NoHost("read the configuration", err)
			}
			denied := w.Self + " fetch denied03.test:443"
			var out []escape.Finding
			reload := func(name string, change func() error, works bool) {
				if err := change(); err != nil {
					out = append(out, found(name, false, "%v", err))
					return
				}
				res, err := w.Exec(w.Cloister, "guardian", "reload")
				out = append(out, found("reload of "+name, err == nil && (res.Status == 0) == works, "status %d: %s", res.Status, res.Stderr))
				if err := w.Write(config, string(good)); err != nil && works {
					out = append(out, found(name, false, "%v", err))
				}
				run := w.Outcome([]string{"--expose", w.Self}, "sh", "-c", denied)
				out = append(out, found("a denied name after "+name, run.Status == 3, "status %d: %s%s", run.Status, run.Stdout, run.Stderr))
			}
			reload("a broken one", func() error { return w.Write(config, "version: 1\nproxy: [") }, false)
			reload("an unknown key", func() error { return w.Write(config, "version: 1\nproxi: {}\n") }, false)
			reload("an empty allow list", func() error {
				return w.Write(config, "version: 1\nproxy: {presets: [], allow: [], unlisted_domain_behavior: deny}\n")
			}, true)
			reload("a vanished one", func() error { return os.Remove(config) }, true)
			if err := w.Write(config, string(good)); err != nil {
				return escape.NoHost("restore the configuration", err)
			}
			res, err := w.Exec(w.Cloister, "guardian", "reload")
			run := w.Outcome([]string{"--expose", w.Self}, "sh", "-c", w.Self+" fetch allowed.test:443")
			return append(out, found("control: the good one allows what it says", err == nil && res.Status == 0 && run.Status == 0, "status %d: %s%s", run.Status, run.Stdout, run.Stderr))
		},
	}
}
