package protect

import (
	"strings"
	"testing"
)

func TestNameInAnySpelling(t *testing.T) {
	for _, a := range autoRun() {
		if strings.Contains(a.path, "/") {
			continue
		}
		if len(a.path) > maxName {
			t.Errorf("%s is longer than Name looks at: %d", a.path, len(a.path))
		}
		for _, name := range []string{a.path, strings.ToUpper(a.path), strings.ToLower(a.path)} {
			if !Name(name) {
				t.Errorf("%s is none", name)
			}
		}
	}
	for _, name := range []string{"", "x", ".vscod", ".vscode2", "x.code-workspac", ".code-workspace", "ſ", strings.Repeat("a", 1000)} {
		if Name(name) {
			t.Errorf("%q is one", name)
		}
	}
	if !Name("My.CODE-workspace") {
		t.Error("a workspace file of an editor is none")
	}
}
