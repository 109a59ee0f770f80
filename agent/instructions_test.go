package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/agent"
)

func TestInstructions(t *testing.T) {
	for _, c := range []struct {
		name  string
		shims []string
		git   bool
		holds []string
		lacks []string
	}{
		{"hostexec alone", nil, false, []string{"`hostexec CMD [ARG...]`", "status 126"}, []string{"run on the host when you call them", "git push"}},
		{"shims", []string{"npm", "git", "gh"}, false, []string{"as with hostexec: `npm`, `gh`."}, []string{"`git`", "git push"}},
		{"git", nil, true, []string{"hostexec git push REMOTE BRANCH"}, []string{"when you call them"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := agent.Instructions(c.shims, c.git)
			byPath := map[string]string{}
			for _, f := range files {
				byPath[f.Path] = f.Text
				if !strings.HasPrefix(f.Path, "/etc/") {
					t.Errorf("%s is no place of the system's", f.Path)
				}
				if strings.HasSuffix(f.Path, ".json") && !json.Valid([]byte(f.Text)) {
					t.Errorf("%s: %s", f.Path, f.Text)
				}
			}
			text := byPath["/etc/claude-code/CLAUDE.md"]
			for _, want := range c.holds {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q: %s", want, text)
				}
			}
			for _, bad := range c.lacks {
				if strings.Contains(text, bad) {
					t.Errorf("it says %q", bad)
				}
			}
			if !strings.Contains(byPath["/etc/opencode/opencode.json"], "/etc/cloister/host-commands.md") || byPath["/etc/cloister/host-commands.md"] != text {
				t.Error("the others are told something else")
			}
			var toml string
			_, value, _ := strings.Cut(strings.TrimSpace(byPath["/etc/codex/config.toml"]), " = ")
			if err := json.Unmarshal([]byte(value), &toml); err != nil || toml != text {
				t.Errorf("codex is told %q, %v", toml, err)
			}
		})
	}
}
