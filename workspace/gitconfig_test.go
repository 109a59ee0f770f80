package workspace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseGitConfig(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []entry
	}{
		{"plain", "[core]\n\thooksPath = .githooks\n", []entry{{"core", "", "hookspath", ".githooks"}}},
		{"comment", "[core]\n\thooksPath = .githooks # shared\n; x\n# y\n", []entry{{"core", "", "hookspath", ".githooks"}}},
		{"hash in quotes", "[core]\nhooksPath = \"a # b\" ; c\n", []entry{{"core", "", "hookspath", "a # b"}}},
		{"escapes", `[a]` + "\n" + `x = "q\"\\\t"` + "\n", []entry{{"a", "", "x", "q\"\\"}}},
		{"continued", "[a]\nx = one \\\n two\n", []entry{{"a", "", "x", "one  two"}}},
		{"one line", "[core] hooksPath=.h\n", []entry{{"core", "", "hookspath", ".h"}}},
		{"subsection", "[includeIf \"gitdir:~/x/\"]\npath = y\n[Diff.old]\ncommand=z", []entry{{"includeif", "gitdir:~/x/", "path", "y"}, {"diff", "old", "command", "z"}}},
		{"quotes in a subsection", `[submodule "a\"b\\c"]` + "\nurl = x\n", []entry{{"submodule", `a"b\c`, "url", "x"}}},
		{"no value", "[core]\nbare\nx = 1", []entry{{"core", "", "bare", ""}, {"core", "", "x", "1"}}},
		{"carriage returns", "[core]\r\n\thooksPath = .h\r\n", []entry{{"core", "", "hookspath", ".h"}}},
		{"unclosed", "[core", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseGitConfig(tt.text), cmp.AllowUnexported(entry{})); diff != "" {
				t.Error(diff)
			}
		})
	}
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
			if got, ok := withoutPlace(tt.text); ok != (tt.want != "") || ok && got != tt.want {
				t.Errorf("%q, %v, want %q", got, ok, tt.want)
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
		for _, e := range parseGitConfig(text) {
			total += len(e.key) + len(e.value)
		}
		if total > 3*len(text) { // lower-casing may lengthen a rune
			t.Errorf("%d bytes out of %d", total, len(text))
		}
		// Nothing but the place is gone from what is shown of a submodule.
		if shown, ok := withoutPlace(text); ok {
			var want []entry
			for _, e := range parseGitConfig(text) {
				if e.section != "core" || e.subsection != "" || e.key != "worktree" {
					want = append(want, e)
				}
			}
			if diff := cmp.Diff(want, parseGitConfig(shown), cmp.AllowUnexported(entry{})); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func FuzzParsePointer(f *testing.F) {
	f.Add("gitdir: ../x\n", "gitdir: ")
	f.Add("../..\n", "")
	f.Fuzz(func(t *testing.T, text, prefix string) {
		path, err := parsePointer(text, prefix)
		if err == nil && (path == "" || len(path) > 4096) {
			t.Errorf("accepted %q", path)
		}
	})
}
