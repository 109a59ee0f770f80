package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/api"
)

func side(name string, cells map[string]string) *Side { return &Side{Name: name, cells: cells} }

// Cells that say the same of a path have one letter where several sides made the same of it, and
// none where they only look alike.
func TestRows(t *testing.T) {
	sides := []*Side{
		side("k-1", map[string]string{"a": "+1 -0\x00one", "b": "added +1 -0\x00x", "d": "+2 -2\x00p"}),
		side("k-2", map[string]string{"a": "+1 -0\x00one", "c": "deleted\x00", "d": "+2 -2\x00q"}),
		side("k-3", map[string]string{"a": "+1 -0\x00other", "c": "deleted\x00", "d": "+2 -2\x00q"}),
	}
	want := []api.ComparedPath{
		{Path: "a", Cells: []string{"+1 -0 (a)", "+1 -0 (a)", "+1 -0"}},
		{Path: "b", Cells: []string{"added +1 -0", "-", "-"}},
		{Path: "c", Cells: []string{"-", "deleted (a)", "deleted (a)"}},
		{Path: "d", Cells: []string{"+2 -2", "+2 -2 (a)", "+2 -2 (a)"}},
	}
	if diff := cmp.Diff(want, Rows(sides)); diff != "" {
		t.Error(diff)
	}
	if rows := Rows(nil); len(rows) != 0 || rows == nil {
		t.Errorf("of nothing: %v", rows)
	}
}

// More groups of sides than the alphabet has letters are still told apart by pairs.
func TestManyRows(t *testing.T) {
	var sides []*Side
	for i := range 60 {
		sides = append(sides, side(fmt.Sprint(i), map[string]string{"a": fmt.Sprintf("+1 -0\x00%d", i/2)}))
	}
	cells := Rows(sides)[0].Cells
	for i := 0; i < len(cells); i += 2 {
		if cells[i] != cells[i+1] || !strings.HasPrefix(cells[i], "+1 -0 (") {
			t.Errorf("%d: %q and %q", i, cells[i], cells[i+1])
		}
	}
}

func TestLast(t *testing.T) {
	var long []byte
	for i := range 30 {
		long = fmt.Appendf(long, "line %d\r\n", i)
	}
	for name, c := range map[string]struct {
		out  string
		n    int
		want []string
	}{
		"nothing":             {"", 10, []string{}},
		"without an end":      {"ok", 10, []string{"ok"}},
		"the last ones":       {string(long), 2, []string{"line 28", "line 29"}},
		"empty lines stay":    {"a\n\nb\n", 10, []string{"a", "", "b"}},
		"less of the trial's": {"ok\ncloister: 2 files changed in the overlay, not in the project\nhint: cloister diff k-try, then x\n", 10, []string{"ok"}},
		"nor of its home": {"ok\ncloister: no file of the project changed; what the agent knows is kept: cloister " +
			"start --name k-try goes on\n", 10, []string{"ok"}},
	} {
		if got := Last([]byte(c.out), c.n); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
