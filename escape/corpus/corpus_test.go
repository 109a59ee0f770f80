//go:build linux

package corpus_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/escape"
	"cloister/escape/corpus"
	"cloister/escape/page"
)

// rows are the cases that this kind of enclosure has to answer.
func rows(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../testdata/cases.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if len(f) != 3 {
			t.Fatalf("cases.tsv: %q has %d fields, not 3", line, len(f))
		}
		// N is native, D is docker.
		if in := strings.Fields(f[2]); f[2] == "all" || slices.Contains(in, "N") || slices.Contains(in, "D") {
			out = append(out, f[0])
		}
	}
	if len(out) < 90 {
		t.Fatalf("cases.tsv has %d rows for native", len(out))
	}
	return out
}

func TestEveryRowIsTriedOrMissing(t *testing.T) {
	tried, missing := map[string]bool{}, map[string]bool{}
	for _, c := range corpus.All() {
		if tried[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		tried[c.ID] = true
	}
	for _, m := range corpus.Missing() {
		if m.Needs == "" {
			t.Errorf("%s is missing without a reason", m.ID)
		}
		missing[m.ID] = true
	}
	rows := rows(t)
	for _, id := range rows {
		if tried[id] == missing[id] {
			t.Errorf("%s: a case: %v, missing: %v; it must be one of both", id, tried[id], missing[id])
		}
	}
	neighbour := regexp.MustCompile(`^([A-Z]{2}-[0-9]{2})[a-z]?$`)
	for id := range tried {
		m := neighbour.FindStringSubmatch(id)
		if m == nil || !slices.Contains(rows, m[1]) {
			t.Errorf("case %s is neither a row of cases.tsv nor the neighbour of one", id)
		}
	}
	for id := range missing {
		if !slices.Contains(rows, id) {
			t.Errorf("%s is missing, and no row of cases.tsv", id)
		}
	}
}

// withAllLayers are cases that were tried with every layer in place alone, so far:
// script/test layers takes one out for them too, and then they are struck from here.
var withAllLayers = []string{

	"SE-20", "NW-63", "SC-02a", "SC-02b", "SC-03a",
	"NW-18a", "NW-37b", "NW-61a", "SE-20a", "PO-05a", "PO-10a",
	"FS-03c", "FS-03d", "PR-18c", "PR-18d",
}

func notYet(holds escape.Holds, id string) bool {
	_, known := holds[id]
	return !known && slices.Contains(withAllLayers, id)
}

// What was seen with layers left out is kept, and told, for the cases that there
// are: script/test layers looks again and writes it.
func TestLayersAreToldAsTheyWereSeen(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	facts, err := page.Read("../testdata", corpus.All(), corpus.Missing())
	if err != nil {
		t.Fatal(err)
	}
	for as, holds := range facts.Holds[escape.Native] {
		if err := holds.Stale(slices.DeleteFunc(corpus.All(), func(c escape.Case) bool { return notYet(holds, c.ID) })); err != nil {
			t.Errorf("%s: %v\nhint: ATTEMPTS='^(ID|ID)$' script/test layers   tries those cases with layers left out and writes it",
				page.HoldsFile(escape.Native, as), err)
		}
	}
	if got := facts.Seen.Format(corpus.All()); got != read("../testdata/columns.tsv") {
		t.Errorf("columns.tsv has lines of what is no case, or in another order; it should be\n%s", got)
	}
	const hint = "write it anew with: go run ./cmd/cloister-escape -document ."
	if diff := cmp.Diff(facts.Attempts(), read("../../docs/attempts.md")); diff != "" {
		t.Errorf("docs/attempts.md (-want +got); %s\n%s", hint, diff)
	}
	want, err := facts.Security(read("../../SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, read("../../SECURITY.md")); diff != "" {
		t.Errorf("SECURITY.md (-want +got); %s\n%s", hint, diff)
	}
}

func TestHoldsAreReadAsTheyWereWritten(t *testing.T) {
	cases := []escape.Case{
		{ID: "AA-01", Layers: []string{"view", "landlock"}, Tries: func(escape.Inside) []escape.Try { return nil }},
		{ID: "AA-02", Layers: []string{"policy"}, Needs: map[escape.Layer]string{escape.Net: "reason"}, Tries: func(escape.Inside) []escape.Try { return nil }},
	}
	holds := escape.Holds{
		"AA-01": {Case: "AA-01", Held: []escape.Layer{escape.Landlock}, Open: []escape.Layer{escape.View}},
		"AA-02": {Case: "AA-02", Held: []escape.Layer{escape.Policy}, Untried: []escape.Layer{escape.Net}},
	}
	got, err := escape.ParseHolds(holds.Format("root", cases))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(holds, got); diff != "" {
		t.Error(diff)
	}
	if err := got.Stale(cases); err != nil {
		t.Error(err)
	}
	if text := page.Text(cases[1], got["AA-02"]); text != "second layer holds without policy; could not be tried without net: reason" {
		t.Errorf("it says %q", text)
	}
	if text := page.Text(cases[0], got["AA-01"]); text != "**single layer**: opens without view; holds without landlock" {
		t.Errorf("it says %q", text)
	}
	// A case that is new, one that is gone and a layer that is named since are told.
	cases[0].Layers = append(cases[0].Layers, "seccomp")
	cases[1].ID = "AA-03"
	err = got.Stale(cases)
	for _, word := range []string{"AA-01: named or needed without seccomp", "AA-03: nothing is known", "AA-02: a line of what is no case"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("it does not say %q: %v", word, err)
		}
	}
	if _, err := escape.ParseHolds("AA-01\twall\t-\t-\n"); err == nil {
		t.Error("a layer that there is not was read")
	}
}

// The page about the second audit names rows that there are.
func TestRowsOfTheBorder(t *testing.T) {
	text, err := os.ReadFile("../../docs/border.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b[A-Z]{2}-[0-9]{2}[a-z]?\b`).FindAllString(string(text), -1)
	if len(named) < 20 {
		t.Errorf("docs/border.md names %d rows", len(named))
	}
	for _, id := range named {
		if !slices.ContainsFunc(corpus.All(), func(c escape.Case) bool { return c.ID == id }) {
			t.Errorf("docs/border.md names %s, which is no case", id)
		}
	}
}

func TestEveryCaseSaysWhatItIs(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"listed", "kept", "contained"} {
		more, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	in := escape.Inside{Base: t.TempDir(), Project: "/nowhere", Outside: "/nowhere", Home: "/nowhere", PID: os.Getpid()}
	for _, c := range corpus.All() {
		if c.Class == "" || c.Attack == "" || c.Source == "" || len(c.Layers) == 0 {
			t.Errorf("%s: class, attack, source or layers are not said", c.ID)
		}
		if c.Tries == nil && c.Host == nil {
			t.Errorf("%s tries nothing and looks at nothing", c.ID)
		}
		for l, why := range c.Needs {
			if !slices.Contains(escape.Layers(), l) || why == "" {
				t.Errorf("%s needs %s: no such layer or no reason", c.ID, l)
			}
		}
		start := strings.ToLower(strings.Replace(c.ID, "-", "", 1)) + "_"
		if !slices.ContainsFunc(files, func(f os.DirEntry) bool { return strings.HasPrefix(f.Name(), start) }) {
			t.Errorf("%s has no file %s*", c.ID, start)
		}
		if c.Tries == nil {
			continue
		}
		names := map[string]bool{}
		for _, try := range c.Tries(in) {
			if names[try.Name] {
				t.Errorf("%s: two tries are called %q", c.ID, try.Name)
			}
			names[try.Name] = true
			if try.Control == escape.ByNobody && try.Why == "" {
				t.Errorf("%s: %s has no control and no reason", c.ID, try.Name)
			}
		}
		if len(names) == 0 {
			t.Errorf("%s has no tries", c.ID)
		}
	}
}

// rootsControl are the cases whose attempts fail outside as well for an ordinary user: what is held of them as one says
// nothing of a wall. SECURITY.md names them.
var rootsControl = []string{"FS-23", "PR-06", "PR-24"}

// TestControls: every other case has an attempt that an ordinary user's control makes, a record due, or a look at
// the host.
func TestControls(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	in := escape.Inside{Base: t.TempDir(), Project: "/nowhere", Outside: "/nowhere", Home: "/nowhere", PID: os.Getpid()}
	for _, c := range corpus.All() {
		proves := len(c.Due) > 0 || c.Host != nil || c.Tries != nil &&
			slices.ContainsFunc(c.Tries(in), func(try escape.Try) bool { return try.Control == escape.ByAnybody })
		if named := slices.Contains(rootsControl, c.ID); named == proves {
			t.Errorf("%s: as an ordinary user it proves something: %v, named: %v", c.ID, proves, named)
		}
	}
	if want := "`" + strings.Join(rootsControl, "`, `") + "`"; !strings.Contains(string(text), want) {
		t.Errorf("SECURITY.md does not name %s", want)
	}
}
