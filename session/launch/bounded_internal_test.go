package launch

import (
	"fmt"
	"strings"
	"testing"

	"cloister/policy"
)

// What statements name together has a bound, which is said with the statement that is one too many,
// and what to write instead.
func TestBounded(t *testing.T) {
	list := func(n, length int) []policy.Statement {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "forbid (principal, action == Action::\"FileOpen\", resource == File::\"/%0*d\");\n", length, i)
			if text.Len() > 900<<10 {
				break
			}
		}
		got, err := policy.FileStatements([]policy.CedarFile{{Name: "many.cedar", Text: []byte(text.String())}})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; len(got) < n; i++ { // a file has at most a MiB
			st := got[i]
			st.Origin.Line, st.Rule = len(got)+1, fmt.Sprintf("many.cedar#%d", len(got)+1)
			got = append(got, st)
		}
		return got
	}
	for _, c := range []struct {
		n, length int
		want      string
	}{
		{10_000, 100, ""},
		{maxPaths, 40, ""},
		{maxPaths + 1, 40, "many.cedar:20001:1: "},
		{2000, 4000, "many.cedar:1022:1: "},
	} {
		err := bounded(list(c.n, c.length))
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%d paths of %d bytes: %v, want %q", c.n, c.length, err, c.want)
		}
		if h, ok := err.(interface{ Hints() []string }); err != nil && (!ok || !strings.Contains(h.Hints()[0], "Dir::")) {
			t.Errorf("%v says nothing of what to do", err)
		}
	}
}
