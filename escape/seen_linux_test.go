package escape_test

import (
	"testing"

	"cloister/escape"
)

// Lines that are added as cases end: the last word about a case, a kind and who tried it counts.
func TestSeenAsItComes(t *testing.T) {
	seen, err := escape.ParseSeen("FS-01\tnative\troot,user\nFS-02\tnative\troot\n" +
		"FS-01\tnative\t-root\nFS-02\tnative\t?user\nFS-02\tnative\tuser\nFS-03\tdocker\t?root\n")
	if err != nil {
		t.Fatal(err)
	}
	cases := []escape.Case{{ID: "FS-01"}, {ID: "FS-02"}, {ID: "FS-03"}}
	const want = "# Attempts that were held, with their controls: the case, the kind of enclosure, as whom.\n" +
		"# Written by script/test columns.\nFS-01\tnative\tuser\nFS-02\tnative\troot,user\n"
	if got := seen.Format(cases); got != want {
		t.Errorf("%q", got)
	}
	for _, text := range []string{"FS-01\tnative\t-nobody\n", "FS-01\tnowhere\troot\n", "FS-01\tnative\n"} {
		if _, err := escape.ParseSeen(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// A control that failed proves nothing of the rest; what came off is decided.
func TestUndecided(t *testing.T) {
	control, attack := escape.Found("control: it can", false, ""), escape.Found("it was tried", false, "")
	for name, c := range map[string]struct {
		row  escape.Row
		want bool
	}{
		"it passed":               {escape.Row{}, false},
		"a control failed":        {escape.Row{Problems: []string{"x"}, Findings: []escape.Finding{control, attack}}, true},
		"it came off":             {escape.Row{Problems: []string{"x"}, Findings: []escape.Finding{attack}}, false},
		"an answer says that too": {escape.Row{Problems: []string{"x"}, Findings: []escape.Finding{control}, Answers: []escape.Answer{{State: escape.Open}}}, false},
	} {
		if got := c.row.Undecided(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
