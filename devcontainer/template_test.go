package devcontainer_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/config"
	"cloister/devcontainer"
	"cloister/devcontainer/demand"
)

// TestTemplates holds the devcontainers to what config's templates are for: each is one
// of which nothing is refused.
func TestTemplates(t *testing.T) {
	for _, kind := range config.TemplateNames() {
		text, err := devcontainer.Template(kind)
		if err != nil {
			t.Error(err)
			continue
		}
		project := t.TempDir()
		name, err := devcontainer.WriteOwn(project, text)
		if err != nil {
			t.Error(err)
			continue
		}
		d, err := devcontainer.Read(devcontainer.Options{Project: project,
			LocalEnv: func(string) (string, bool) { return "", false }})
		if err != nil || d.File != name {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		for _, f := range d.Findings {
			if f.Outcome == demand.Refused || f.Outcome == demand.Kept {
				t.Errorf("%s: %s is %s: %s", kind, f.Key, f.Outcome, f.Reason)
			}
		}
		e, err := d.On(devcontainer.Options{LocalEnv: func(string) (string, bool) { return "", false }}, devcontainer.Image{})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		p, err := config.ParseProject("devcontainer.json", e.Narrowed)
		if err != nil || len(p.Narrowed().Filesystem.Hide) != len(p.Filesystem.Hide) || p.Widens(config.Default()) &&
			p.Narrowed().Widens(config.Default()) {
			t.Errorf("%s: customizations.cloister asks for more than it takes away: %v", kind, err)
		}
		if _, err := devcontainer.WriteOwn(project, []byte("{}")); err == nil {
			t.Errorf("%s is written over", kind)
		}
		if now, err := os.ReadFile(filepath.Join(project, name)); err != nil || string(now) != string(text) {
			t.Errorf("%s was changed: %v", kind, err)
		}
	}
}
