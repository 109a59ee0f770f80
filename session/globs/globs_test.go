package globs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/internal/realpath"
	"cloister/policy"
	"cloister/session/globs"
)

func statements(t *testing.T, text string) []policy.Statement {
	t.Helper()
	list, err := policy.FileStatements([]policy.CedarFile{{Name: "p.cedar", Text: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func project(t *testing.T, files ...string) string {
	t.Helper()
	root, err := realpath.Of(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		at := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func none(*policy.Statement) bool { return false }

func TestExpand(t *testing.T) {
	root := project(t, "a.pem", "x/y/b.pem", "dir.pem/c.pem", "other", "x/secrets/one", "a\nb.pem")
	if err := os.Symlink("x", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{`forbid (principal, action == Action::"FileOpen", resource in Glob::"*.pem");`,
			`"a.pem" "a\nb.pem" "dir.pem"/ "x/y/b.pem" *.pem`},
		{`forbid (principal, action == Action::"FileOpen", resource in Glob::"**/secrets/*");`, `"x/secrets/one" **/secrets/*`},
		{`forbid (principal, action == Action::"FileOpen", resource in Glob::"link/**/*.pem");`, `refused: leads to`},
		{`forbid (principal, action == Action::"FileOpen", resource in Glob::"` + root + `/x/y/*");`, `"x/y/b.pem" ` + root + `/x/y/*`},
		{`forbid (principal, action == Action::"FileOpen", resource in Glob::"none/*");`, `none/*`},
		{`forbid (principal, action == Action::"FileOpen", resource in Glob::"/home/*/x");`, `refused: a pattern is for files of`},
	} {
		list, err := globs.Expand(statements(t, c.text), globs.Places{Project: root}, none)
		if text, ok := strings.CutPrefix(c.want, "refused: "); ok {
			if err == nil || !strings.Contains(err.Error(), text) || !strings.HasPrefix(err.Error(), "p.cedar:1:1: ") {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got []string
		for _, p := range list[0].Closed {
			at := p.Path
			if rel, err := filepath.Rel(root, at); err == nil && !p.Glob {
				at = fmt.Sprintf("%q", rel)
			}
			if p.Dir {
				at += "/"
			}
			got = append(got, at)
		}
		slices.Sort(got[:len(got)-1])
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.text, text, c.want)
		}
	}
}

// A folder that is exchanged for a link while it is looked at leads nowhere: the search fails, or what
// it finds lies where it looked.
func TestFoldersThatBecomeLinks(t *testing.T) {
	root := project(t, "in/a/x.pem", "elsewhere/x.pem", "elsewhere/out.pem")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		at, aside := filepath.Join(root, "in/a"), filepath.Join(root, "aside")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(at, aside)
			_ = os.Symlink(filepath.Join(root, "elsewhere"), at)
			_ = os.Remove(at)
			_ = os.Rename(aside, at)
		}
	}()
	list := statements(t, `forbid (principal, action == Action::"FileOpen", resource in Glob::"in/**/*.pem");`)
	found := 0
	for range 3000 {
		got, err := globs.Expand(list, globs.Places{Project: root}, none)
		if err != nil {
			continue
		}
		for _, c := range got[0].Closed {
			if strings.Contains(c.Path, "out.pem") || strings.Contains(c.Path, "elsewhere") {
				t.Fatalf("a link was followed: %s", c.Path)
			}
			if !c.Glob {
				found++
			}
		}
	}
	close(stop)
	<-done
	if found == 0 {
		t.Error("nothing was ever found")
	}
}

func TestAcceptedIsLeft(t *testing.T) {
	list := statements(t, `forbid (principal, action == Action::"FileOpen", resource in Glob::"/home/*/x");`)
	if _, err := globs.Expand(list, globs.Places{}, func(*policy.Statement) bool { return true }); err != nil {
		t.Error(err)
	}
}
