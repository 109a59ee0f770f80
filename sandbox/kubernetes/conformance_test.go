package kubernetes_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEachDifferenceIsSaid: docs/kubernetes-conformance.md has each word that the suite of drivers is given for pods,
// once, and its cases are the suite's.
func TestEachDifferenceIsSaid(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, suite := read("../../docs/kubernetes-conformance.md"), read("../sandboxtest/sandboxtest.go")
	words := regexp.MustCompile(`sandboxtest\.([A-Z]\w+),`).FindAllStringSubmatch(read("clustersuite_test.go"), -1)
	words = append(words, regexp.MustCompile(`sandboxtest\.([A-Z]\w+)\)\n`).FindAllStringSubmatch(read("clustersuite_test.go"), -1)...)
	for _, w := range words {
		said := regexp.MustCompile(`\b` + w[1] + ` Difference = "([^"]+)"`).FindStringSubmatch(suite)
		if said == nil {
			t.Errorf("%s is no difference", w[1])
		} else if n := strings.Count(page, "\n| "+said[1]+" | "); n != 1 {
			t.Errorf("%q has %d rows", said[1], n)
		}
	}
	if len(words) != 5 {
		t.Errorf("the suite is given %d words: %v", len(words), words)
	}
	cases := map[string]bool{}
	for _, c := range regexp.MustCompile(`\{"([^"]+)", \w+\}`).FindAllStringSubmatch(read("../sandboxtest/cases.go"), -1) {
		cases[c[1]] = true
	}
	_, table, _ := strings.Cut(page, "| case | of a copy |\n|---|---|\n")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			break
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			if rows++; !cases[strings.TrimSpace(name)] {
				t.Errorf("%q is no case", strings.TrimSpace(name))
			}
		}
	}
	if len(cases) < 40 || rows < 19 {
		t.Errorf("%d cases, %d of them in rows", len(cases), rows)
	}
}
