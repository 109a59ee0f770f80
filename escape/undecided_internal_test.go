//go:build linux

package escape

import "testing"

// TestUndecidedIsNoFinding: what was seen to come off is never undecided, whatever else is missing.
func TestUndecidedIsNoFinding(t *testing.T) {
	r := Row{Findings: []Finding{{Name: "the host has it", Held: false}}, Problems: []string{"x"}, unsure: true}
	if r.Undecided() {
		t.Error("a hole that was seen is tried once more")
	}
	r.Findings = append(r.Findings, Finding{Name: "control: it would be seen", Held: false})
	if !r.Undecided() { // the control
		t.Error("without its control nothing is known of it")
	}
	r = Row{Problems: []string{"no answer"}, unsure: true}
	if !r.Undecided() {
		t.Error("a missing answer decides nothing")
	}
}

// TestWithoutSomeAnswers: without a layer a case is held only where every try was refused.
func TestWithoutSomeAnswers(t *testing.T) {
	for problems, want := range map[string]bool{"": true, "1 answers of 2 tries": false} {
		r := &Row{Case: Case{ID: "X", Layers: []string{string(Net)}}, Off: map[Layer]Off{}}
		g := &Row{Answers: []Answer{{Try: "one", State: Held}}}
		if problems != "" {
			g.Problems = []string{problems}
		}
		r.without(Net, g)
		if got := r.Off[Net].Held && r.Passed(); got != want {
			t.Errorf("%q: held %v", problems, got)
		}
	}
}
