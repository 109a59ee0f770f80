package held_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/state/held"
	"cloister/state/layers"
)

// runs stands for the list of the workspace: what these tests are about is the rest.
func runs(name string) bool {
	return strings.HasPrefix(name, ".vscode") || name == ".envrc" || strings.HasSuffix(name, "/.envrc") ||
		strings.HasPrefix(name, ".hg/") && strings.HasSuffix(name, "hgrc") || name == ".npmrc"
}

func TestFind(t *testing.T) {
	file := func(p string) layers.Change {
		return layers.Change{Path: p, Op: layers.Added, New: layers.Node{Kind: layers.File}}
	}
	dir := func(p string) layers.Change {
		return layers.Change{Path: p, Op: layers.Added, New: layers.Node{Kind: layers.Dir}, Implied: true}
	}
	link := func(p, to string) layers.Change {
		return layers.Change{Path: p, Op: layers.Added, New: layers.Node{Kind: layers.Link, Target: to}}
	}
	gone := func(p string) layers.Change {
		return layers.Change{Path: p, Op: layers.Deleted, Old: layers.Node{Kind: layers.File}}
	}
	unlinked := gone(".hg")
	unlinked.Old.Kind = layers.Link
	moved := file("notes")
	moved.Op, moved.From = layers.Renamed, ".npmrc"
	for _, test := range []struct {
		name    string
		project []string // "path" is a file, "path/" a folder, "path>to" a link
		changes []layers.Change
		want    string
	}{
		{"plain", nil, []layers.Change{file("a"), file("d/config"), link("l", "d/config"), gone("b")}, ""},
		{"by name", nil, []layers.Change{file(".envrc"), file("sub/.envrc"), gone(".npmrc")}, ".envrc sub/.envrc .npmrc"},
		{"taken away by a rename", nil, []layers.Change{moved}, "notes"},
		{"links out", nil, []layers.Change{link("a", "/etc"), link("d/b", "../.."), link("d/c", "../d"), link("d/e", "x/../../../y"), link("f", "here/../y"), link("d/g", "../x/y")}, "a d/b d/e f"},
		{"a link to a folder of settings", nil, []layers.Change{link(".hg", "evil"), file("evil/hgrc")}, ".hg"},
		{"a link of the person's that goes", []string{".hg>shared/hg"}, []layers.Change{unlinked, dir(".hg")}, ".hg"},
		{"a link of the person to a file", []string{".envrc>tools/env", "tools/env"}, []layers.Change{file("tools/env"), file("tools/other")}, "tools/env"},
		{"a link of the person to nothing yet", []string{".envrc>tools/env"}, []layers.Change{file("tools/env")}, "tools/env"},
		{"a link of the person to a folder", []string{".vscode>tools/code", "tools/code/"}, []layers.Change{file("tools/code/tasks.json")}, "tools/code/tasks.json"},
		{"a link of the person below", []string{"sub/.envrc>../env", "env"}, []layers.Change{file("sub/x"), file("env")}, "env"},
		{"a bare repository", nil, []layers.Change{file("r/HEAD"), dir("r/objects"), dir("r/refs"), file("r/config"), file("r/hooks/pre-commit"), file("r/hooks/x.sample"), file("r/README")}, "r/HEAD r/config r/hooks/pre-commit"},
		{"one by a commondir", nil, []layers.Change{file("r/HEAD"), file("r/commondir"), file("c/config")}, "r/HEAD r/commondir"},
		{"hooks by a link", []string{"r/HEAD", "r/refs/", "r/objects/"}, []layers.Change{link("r/hooks", "../evil"), file("evil/x")}, "r/hooks"},
		{"one half there", []string{"r/HEAD", "r/refs/"}, []layers.Change{dir("r/objects"), file("r/objects/ab"), file("r/config")}, "r/config"},
		{"one that is there", []string{"t/r.git/HEAD", "t/r.git/refs/", "t/r.git/objects/"}, []layers.Change{file("t/r.git/config"), file("t/r.git/refs/heads/x")}, "t/r.git/config"},
		{"one whose HEAD goes", []string{"r/HEAD", "r/refs/", "r/objects/"}, []layers.Change{gone("r/HEAD"), file("r/config")}, ""},
		{"a config of something else", []string{"r/HEAD"}, []layers.Change{file("r/config")}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			project := t.TempDir()
			for _, e := range test.project {
				name, to, isLink := strings.Cut(e, ">")
				full := filepath.Join(project, name)
				err := os.MkdirAll(filepath.Dir(full), 0o755)
				switch {
				case err != nil:
				case isLink:
					err = os.Symlink(to, full)
				case strings.HasSuffix(name, "/"):
					err = os.MkdirAll(full, 0o755)
				default:
					err = os.WriteFile(full, nil, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := held.Find(project, test.changes, runs)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range got {
				names = append(names, c.Path)
				if c.Why == "" {
					t.Error("no reason for", c.Path)
				}
			}
			if is := strings.Join(names, " "); is != test.want {
				t.Errorf("got %q, want %q", is, test.want)
			}
		})
	}
}
