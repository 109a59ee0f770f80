package corpus

import (
	"cloister/escape"
	"os"
	"path/filepath"
	"strings"
)

func se12() escape.Case {
	return escape.Case{
		ID: "SE-12", Class: "leak by logs", Attack: "use a secret, have it refused, let its command fail, then search record, logs, answers of the guardian and command lines for the value",
		Source: "claude-code's debug log", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			used := r.swapped()
			refused := r.kept("a use is refused", false, "tls:unbound.test", get("unbound.test", "/ok/x", bearer))
			script := r.w.Base + "/fails.sh"
			if err := r.w.Write(script, "echo "+canary+"; echo "+canary+" >&2; exit 3\n"); err != nil {
				return escape.NoHost("write a command that fails", err)
			}
			wrong := r.cloister("--debug", "secret", "set", "OTHER", "--", "sh", script)
			clean(script)
			var said []string
			for _, words := range [][]string{{"secret", "list", "--json"}, {"secret", "show", "TOKEN", "--json"}, {"audit", "tail", "--json"}, {"list", "--json", "-a"}, {"config", "show"}, {"guardian", "status", "--json"}, {"--debug", "policy", "show"}, {"doctor", "--json"}} {
				if res := r.cloister(words...); strings.Contains(res.Stdout+res.Stderr, canary) {
					said = append(said, strings.Join(words, " "))
				}
			}
			if strings.Contains(wrong.Stdout+wrong.Stderr, canary) {
				said = append(said, "secret set of a command that fails: "+wrong.Stderr)
			}
			kept, err := holding([]string{r.base}, canary)
			if err != nil {
				return escape.NoHost("search cloister's folders", err)
			}
			lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil {
				return escape.NoHost("list the processes", err)
			}
			for _, name := range append(lines, "/proc/self/environ") {
				if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), canary) {
					said = append(said, name)
				}
			}
			control := r.base + "/planted"
			if err := r.w.Write(control, canary); err != nil {
				return escape.NoHost("plant one", err)
			}
			planted, err := holding([]string{r.base}, canary)
			return []escape.Finding{
				used, refused,
				found("nothing that cloister answers has it", len(said) == 0, "%q", said),
				found("no file of cloister's has it", len(kept) == 0, "%q", kept),
				found("control: one that was planted is found", err == nil && len(planted) == 1, "%q %v", planted, err),
			}
		}),
	}
}
