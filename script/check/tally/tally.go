// Package tally counts the tests of one package from what test2json writes.
//
// It promises that each test at the top of a package counts once, as does a package that fails
// without one (it crashed), and that a skip counts as a failure unless it may be skipped. It starts
// no test.
//
// Most readers want [Tally].
package tally

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A Tally counts the tests of one package from a stream of test2json events.
type Tally struct {
	As             string                     // root or user
	Pkg            string                     // with the module's name
	MaySkip        func(as, test string) bool // which tests may be skipped
	Passed, Failed int
	Report         strings.Builder     // of what failed
	Tests          map[string][]string // the tests that failed, with their parts that did
	Race           bool                // the race detector reported something
	Slow           []Slow
	output         map[string][]string
	rest           bytes.Buffer
}

// event is what test2json writes, a line each.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// Slow is a test, or a part of one, with how long it took on the clock.
type Slow struct {
	Name string
	Took float64 // seconds
}

// leastSlow is how many seconds a test takes at least to be listed among the slowest.
const leastSlow = 10

// Slowest are the n tests of a list that took longest.
func Slowest(list []Slow, n int) []Slow {
	slices.SortStableFunc(list, func(a, b Slow) int { return cmp.Compare(b.Took, a.Took) })
	return list[:min(n, len(list))]
}

// Write takes a part of the stream.
func (t *Tally) Write(p []byte) (int, error) {
	t.rest.Write(p)
	for {
		line, err := t.rest.ReadBytes('\n')
		if err != nil {
			t.rest.Write(line)
			return len(p), nil
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			t.Report.Write(line)
			continue
		}
		t.take(e)
	}
}

func (t *Tally) take(e event) {
	if t.output == nil {
		t.output = map[string][]string{}
	}
	switch e.Action {
	case "output":
		t.output[e.Test] = append(t.output[e.Test], e.Output)
		t.Race = t.Race || strings.Contains(e.Output, "WARNING: DATA RACE")
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	name := t.Pkg + "." + e.Test
	if e.Test != "" && e.Elapsed >= leastSlow {
		t.Slow = append(t.Slow, Slow{strings.TrimPrefix(name, "cloister/") + " as " + t.As, e.Elapsed})
	}
	skipped := e.Action == "skip" && e.Test != "" && !t.MaySkip(t.As, name)
	bad := e.Action == "fail" || skipped
	if bad && (e.Test != "" || t.Failed == 0) {
		fmt.Fprintf(&t.Report, "--- %s %s as %s\n", strings.ToUpper(e.Action), strings.TrimSuffix(name, "."), t.As)
		lines := t.output[e.Test]
		if len(lines) > 80 { // the reason may stand first, and a record after it
			lines = append(append(lines[:20:20], fmt.Sprintf("... %d lines ...\n", len(lines)-60)), lines[len(lines)-40:]...)
		}
		t.Report.WriteString(strings.Join(lines, ""))
	}
	if e.Action == "fail" && e.Test != "" {
		t.note(e.Test)
	}
	switch {
	case e.Test != "" && !strings.Contains(e.Test, "/") && bad, e.Test == "" && bad && t.Failed == 0, skipped:
		t.Failed++
	case e.Test != "" && !strings.Contains(e.Test, "/"):
		t.Passed++
	}
	delete(t.output, e.Test)
}

// note keeps the name of a test or part of one that failed.
func (t *Tally) note(test string) {
	if t.Tests == nil {
		t.Tests = map[string][]string{}
	}
	top, part, _ := strings.Cut(test, "/")
	part, _, _ = strings.Cut(part, "/")
	if parts := t.Tests[top]; part != "" && !slices.Contains(parts, part) {
		t.Tests[top] = append(parts, part)
	} else {
		t.Tests[top] = parts
	}
}

// End closes the stream: a program that printed no result failed.
func (t *Tally) End(err error) {
	if line, rerr := bufio.NewReader(&t.rest).ReadString('\n'); rerr != nil && line != "" {
		t.Report.WriteString(line + "\n")
	}
	switch {
	case err != nil && t.Failed == 0:
		t.Failed++
		fmt.Fprintf(&t.Report, "%s as %s: %v\n", t.Pkg, t.As, err)
	case t.Passed+t.Failed == 0:
		t.Failed++
		fmt.Fprintf(&t.Report, "%s as %s: no test was run\n", t.Pkg, t.As)
	}
}

// Pattern is a -test.run that names the tests that failed, and of their parts those
// that failed.
func (t *Tally) Pattern() string {
	var tops, parts []string
	for top, below := range t.Tests {
		tops = append(tops, regexp.QuoteMeta(top))
		for _, part := range below {
			parts = append(parts, regexp.QuoteMeta(part))
		}
	}
	slices.Sort(tops)
	slices.Sort(parts)
	pattern := "^(" + strings.Join(tops, "|") + ")$"
	if len(tops) == 1 && len(parts) > 0 {
		pattern += "/^(" + strings.Join(parts, "|") + ")$"
	}
	return pattern
}

// Plain is what a reader of a log may see: no controls but line ends and tabs.
func Plain(text string) string {
	var b strings.Builder
	for _, c := range text {
		if unicode.IsPrint(c) || c == '\n' || c == '\t' {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "\\x%02x", c)
		}
	}
	return b.String()
}
