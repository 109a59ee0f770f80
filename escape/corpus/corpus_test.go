//go:build linux

package corpus_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/escape"
	"cloister/escape/corpus"
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
		// N is native.
		if f[2] == "all" || slices.Contains(strings.Fields(f[2]), "N") {
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

func TestEveryCaseSaysWhatItIs(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	in := escape.Inside{Base: t.TempDir(), Project: "/nowhere", Outside: "/nowhere", Home: "/nowhere", PID: os.Getpid()}
	for _, c := range corpus.All() {
		if c.Class == "" || c.Attack == "" || c.Source == "" || len(c.Layers) == 0 {
			t.Errorf("%s: class, attack, source or layers are not said", c.ID)
		}
		if c.Tries == nil && c.Host == nil {
			t.Errorf("%s tries nothing and looks at nothing", c.ID)
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
