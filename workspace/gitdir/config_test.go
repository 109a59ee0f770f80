package gitdir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseGitConfig(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []Entry
	}{
		{"plain", "[core]\n\thooksPath = .githooks\n", []Entry{{"core", "", "hookspath", ".githooks"}}},
		{"comment", "[core]\n\thooksPath = .githooks # shared\n; x\n# y\n", []Entry{{"core", "", "hookspath", ".githooks"}}},
		{"hash in quotes", "[core]\nhooksPath = \"a # b\" ; c\n", []Entry{{"core", "", "hookspath", "a # b"}}},
		{"escapes", `[a]` + "\n" + `x = "q\"\\\t"` + "\n", []Entry{{"a", "", "x", "q\"\\"}}},
		{"continued", "[a]\nx = one \\\n two\n", []Entry{{"a", "", "x", "one  two"}}},
		{"one line", "[core] hooksPath=.h\n", []Entry{{"core", "", "hookspath", ".h"}}},
		{"subsection", "[includeIf \"gitdir:~/x/\"]\npath = y\n[Diff.old]\ncommand=z", []Entry{{"includeif", "gitdir:~/x/", "path", "y"}, {"diff", "old", "command", "z"}}},
		{"quotes in a subsection", `[submodule "a\"b\\c"]` + "\nurl = x\n", []Entry{{"submodule", `a"b\c`, "url", "x"}}},
		{"no value", "[core]\nbare\nx = 1", []Entry{{"core", "", "bare", ""}, {"core", "", "x", "1"}}},
		{"carriage returns", "[core]\r\n\thooksPath = .h\r\n", []Entry{{"core", "", "hookspath", ".h"}}},
		{"unclosed", "[core", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Parse(tt.text)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzParseGitConfig: any text ends, and no value grows out of nothing.
func FuzzParseGitConfig(f *testing.F) {
	f.Add("[core]\n\thooksPath = \".g\\\"h\" # x\n[include \"a\"] path=b\\\n c")
	f.Add("[\n]=\n\\")
	f.Fuzz(func(t *testing.T, text string) {
		total := 0
		for _, e := range Parse(text) {
			total += len(e.Key) + len(e.Value)
		}
		if total > 3*len(text) { // lower-casing may lengthen a rune
			t.Errorf("%d bytes out of %d", total, len(text))
		}
		// Nothing but the place is gone from what is shown of a submodule.
		if shown, ok := WithoutPlace(text); ok {
			var want []Entry
			for _, e := range Parse(text) {
				if e.Section != "core" || e.Subsection != "" || e.Key != "worktree" {
					want = append(want, e)
				}
			}
			if diff := cmp.Diff(want, Parse(shown)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestWithoutPlace(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"git's own", "[core]\n\tbare = false\n\tworktree = ../../../lib\n\tx = y\n[remote \"origin\"]\n\turl = z\n", "[core]\n\tbare = false\n\t\n\tx = y\n[remote \"origin\"]\n\turl = z\n"},
		{"on one line", "[core] worktree = a\n[a] b = c", "[core] \n[a] b = c"},
		{"twice, in another spelling", "[Core]\nWorkTree = \"a\" ; b\n[core]\nworktree = c", "[Core]\n\n[core]\n\n"},
		{"continued", "[core]\nworktree = a\\\nb\nx = 1\n", "[core]\n\nx = 1\n"},
		{"carriage returns", "[core]\r\nworktree = a\r\nx = 1\r\n", "[core]\n\nx = 1\n"},
		{"somebody else's", "[core \"a\"]\nworktree = b\n[worktree]\ncore = c\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := WithoutPlace(tt.text); ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("%q, %v, want %q", got, ok, tt.want)
			}
		})
	}
}

// A link in a project leads no reader of ours to another file; to one of the person's own
// it may lead.
func TestReadThroughLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link, through := filepath.Join(dir, "d/config"), filepath.Join(dir, "link"), filepath.Join(dir, "to/config")
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "d"), 0o755), os.WriteFile(file, []byte("[a]\nb = c\n"), 0o644),
		os.Symlink(file, link), os.Symlink("d", filepath.Join(dir, "to")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, linked := range map[string]bool{file: false, link: true, through: true, filepath.Join(dir, "absent"): false} {
		want := 1
		if linked || path != file {
			want = 0
		}
		if got, led := Settings(path); len(got) != want || led != linked {
			t.Errorf("%s: %d settings, linked %v", path, len(got), led)
		}
	}
	for path, want := range map[string]int{file: 1, link: 1, through: 1, filepath.Join(dir, "absent"): 0} {
		if got := ReadOwn(path); len(got) != want {
			t.Errorf("%s of one's own: %d settings", path, len(got))
		}
	}
}
