package kubernetes_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEachCaseIsArgued: docs/kubernetes-conformance.md has each case of the suite of drivers once, and names no test that is
// not there.
func TestEachCaseIsArgued(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("../../docs/kubernetes-conformance.md")
	rows := map[string]int{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			rows[strings.TrimSpace(cells[1])]++
		}
	}
	cases := regexp.MustCompile(`\{"([^"]+)", \w+\}`).FindAllStringSubmatch(read("../sandboxtest/cases.go"), -1)
	for _, c := range cases {
		if rows[c[1]] != 1 {
			t.Errorf("%q has %d rows", c[1], rows[c[1]])
		}
	}
	if len(cases) < 40 || len(rows) != len(cases)+2 { // the heads of the table
		t.Errorf("%d cases and %d rows", len(cases), len(rows))
	}
	var all strings.Builder
	for _, pattern := range []string{"*_test.go", "../../cmd/cloister/servetest/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			all.WriteString(read(f))
		}
	}
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(page, -1) {
		if !strings.Contains(all.String(), "func "+name+"(") {
			t.Errorf("%s is no test", name)
		}
	}
}
