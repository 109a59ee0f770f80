package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/realpath"
	"cloister/policy"
)

// What a pattern names is found once: a file that appears later makes no other statement of it. A
// statement that the view would have to keep is refused in an overlay, whose layers are not searched.
func TestPatternsAreFoundOnce(t *testing.T) {
	root, err := realpath.Of(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.pem")
	f := Facts{Project: root, Cedar: []policy.CedarFile{{Name: "p.cedar", Text: []byte(
		`forbid (principal, action == Action::"FileOpen", resource in Glob::"*.pem");`)}}}
	p := &Plan{}
	names := func() string {
		list, err := p.statements(Order{}, f)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range list[0].Closed {
			out = append(out, filepath.Base(c.Path))
		}
		return strings.Join(out, " ")
	}
	if got := names(); got != "a.pem *.pem" {
		t.Errorf("at first %s", got)
	}
	write("b.pem")
	if got := names(); got != "a.pem *.pem" {
		t.Errorf("later %s", got)
	}
	p = &Plan{}
	if got := names(); got != "a.pem b.pem *.pem" {
		t.Errorf("for another session %s", got)
	}
	p = &Plan{}
	p.View.Overlay = true
	if _, err := p.statements(Order{}, f); err == nil || !strings.Contains(err.Error(), "overlay") {
		t.Errorf("in an overlay: %v", err)
	}
	if _, err := p.statements(Order{Accept: []string{"residue:policy:p.cedar#1"}}, f); err != nil {
		t.Errorf("in an overlay, accepted: %v", err)
	}
}
