package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"cloister/config"
	"cloister/policy"
	"cloister/sandbox"
	"cloister/session/launch"
	"cloister/workspace"
)

// Of an engine's own image, or a pod's, nothing is seen on this host: a path of it is not said to be closed by a
// look at the host's.
func TestClosedInAnImageOfTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		isolation, path string
		root            sandbox.Root
		closes          bool
	}{
		"of the engine's image":         {"docker", "/app/secret", sandbox.Root{ID: "sha256:ab"}, false},
		"a program that the host lacks": {"docker", "/usr/bin/no-such-program-here", sandbox.Root{ID: "sha256:ab"}, false},
		"one that the host has":         {"docker", "/usr/bin/env", sandbox.Root{ID: "sha256:ab"}, false},
		"of a pod's image":              {"kubernetes", "/usr/bin/env", sandbox.Root{}, false},
		"of the host's own":             {"native", "/usr/bin/no-such-program-here", sandbox.Root{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts(t, config.Default())
			f.Isolation, f.Root, f.Elsewhere = c.isolation, c.root, c.isolation == "kubernetes"
			f.Cedar = []policy.CedarFile{{Name: "a.cedar", Text: []byte(
				`@id("x") forbid (principal, action == Action::"FileOpen", resource == File::"` + c.path + `");`)}}
			p, err := launch.Resolve(launch.Order{}, f)
			if err != nil {
				t.Fatal(err)
			}
			if p.Judge != nil {
				_ = p.Judge.Close()
				t.Skip("the kernel judges it")
			}
			o := p.View
			o.Home, o.Data, o.Locks = t.TempDir(), t.TempDir(), t.TempDir()
			project := t.TempDir()
			if err := os.WriteFile(filepath.Join(project, "x"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			v, err := workspace.Plan(workspace.Project{Root: sandbox.HostPath(project)}, o)
			if err == nil {
				defer func() { _ = v.Release() }()
			}
			_, refused := errors.AsType[*workspace.NotClosed](err)
			if err != nil && !refused {
				t.Fatal(err)
			}
			if refused == c.closes {
				t.Errorf("closed without a word: %v", err)
			}
		})
	}
}
