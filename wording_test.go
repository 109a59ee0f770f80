package house_test

import (
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// longest is how many characters a line of product code has at most, longLines how many
// lines are longer than that. The number falls: lower it with each line that is broken.
const (
	longest   = 120
	longLines = 5
)

// A word is one of the house's old dialect: what stands for it, and on how many lines of
// product code it may still be. The numbers fall; a word at 0 stays away.
type word struct {
	pattern string
	instead string
	lines   int
}

func oldWords() []word {
	return []word{
		{`rulebook`, "session rules, policy set", 0},
		{`hostdesk`, "host commands", 0},
		{`tells? whether`, "reports whether", 0},
		{`opened and read`, "intercepted", 0},
		{`who (asks|hears)`, "the caller, the client", 0},
		{`is heard`, "is reported, is received", 0},
		{`hears`, "receives, is notified", 0},
		{`nobody`, "no one, with the subject named: no process, no person, no rule", 23},
		{`told`, "reported, notified, given", 43},
		{`(says|tells) whether`, "reports whether", 3},
		{`somebody`, "someone, with the subject named: a person, a process", 11},
		{`anybody`, "anyone, any process", 4},
		{`(for|by|to|since|so that) who (is|has|asks|waits|reads|writes|uses|calls|looks|needs|wants)`,
			"the subject, named: for its readers, by its caller", 4},
		{`whom`, "the subject, named", 8},
	}
}

func inProduct(f file) bool {
	return !f.test && !strings.HasPrefix(f.name, "bench/") && !strings.HasPrefix(f.name, "escape/") && !strings.HasPrefix(f.name, "script/")
}

func TestLongLines(t *testing.T) {
	count, most, where := 0, 0, map[string]int{}
	for _, f := range files(t) {
		if !inProduct(f) {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > longest {
				count++
				where[f.dir]++
				most = max(most, where[f.dir])
			}
		}
	}
	switch {
	case count > longLines:
		t.Errorf("%d lines of product code are longer than %d characters, over %d: break what was added; by room: %v",
			count, longest, longLines, where)
	case count < longLines:
		t.Logf("%d long lines: lower longLines", count)
	}
}

// TestOldWords looks at identifiers, comments and texts of product code. The name of the
// system's user nobody is no word of the house.
func TestOldWords(t *testing.T) {
	list := oldWords()
	patterns := make([]*regexp.Regexp, len(list))
	for i, w := range list {
		patterns[i] = regexp.MustCompile(`(?i)\b` + w.pattern + `\b`)
	}
	counts, places := make([]int, len(list)), make([]map[string]int, len(list))
	for i := range places {
		places[i] = map[string]int{}
	}
	for _, f := range files(t) {
		if !inProduct(f) {
			continue
		}
		for _, said := range spoken(t, f.name) {
			for i, p := range patterns {
				if p.MatchString(said) {
					counts[i]++
					places[i][f.name]++
				}
			}
		}
	}
	for i, w := range list {
		switch {
		case counts[i] > w.lines:
			t.Errorf("%q is on %d lines of product code, over %d: write %s; it is in %v",
				w.pattern, counts[i], w.lines, w.instead, slices.Sorted(maps.Keys(places[i])))
		case counts[i] < w.lines:
			t.Logf("%q is on %d lines, not %d: lower its number", w.pattern, counts[i], w.lines)
		}
	}
}

// spoken are the lines of a file's comments and texts, and its identifiers.
func spoken(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile(name, set.Base(), len(text)), text, nil, scanner.ScanComments)
	system := strings.NewReplacer("nobody:x:", "", ":nobody:", "", "http.NoBody", "", "NoBody", "")
	lines := map[int]string{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.COMMENT && tok != token.STRING && tok != token.IDENT {
			continue
		}
		at := set.Position(pos).Line
		for line := range strings.Lines(lit) {
			lines[at] += " " + system.Replace(line)
			at++
		}
	}
	return slices.Collect(maps.Values(lines))
}

// An agent is one value of room agent: whoever else chooses by an agent's name would
// have to be found by the author of the next one.
func TestOnlyRoomAgentNamesAgents(t *testing.T) {
	entries, err := filepath.Glob("agent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`Name: "([a-z]+)", Argv`)
	var names []string
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range named.FindAllStringSubmatch(string(text), -1) {
			names = append(names, found[1])
		}
	}
	if len(names) < 4 {
		t.Fatalf("room agent names %q: this test no longer finds them", names)
	}
	chosen := regexp.MustCompile(`(?:case .*|[!=]= )"(?:` + strings.Join(names, "|") + `)"`)
	for _, f := range files(t) {
		if !inProduct(f) || f.dir == "agent" {
			continue
		}
		text, err := os.ReadFile(filepath.FromSlash(f.name))
		if err != nil {
			t.Fatal(err)
		}
		if at := chosen.Find(text); at != nil {
			t.Errorf("%s: %q: what an agent needs is in room agent", f.name, at)
		}
	}
}
