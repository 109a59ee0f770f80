package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// A tally counts the tests of one package from a stream of test2json events.
//
// A test at the top of a package counts, and so does a package that fails without one
// (it crashed). A skip counts as a failure unless mayskip.go has a reason.
type tally struct {
	as             string // root or user
	pkg            string
	passed, failed int
	report         strings.Builder
	output         map[string][]string
	tests          map[string][]string // the tests that failed, with their parts that did
	race           bool                // the race detector reported something
	slow           []slowTest
	rest           bytes.Buffer
}

// event is what test2json writes, a line each.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// A slowTest is a test, or a part of one, with how long it took on the clock.
type slowTest struct {
	name string
	took float64 // seconds
}

// leastSlow is how many seconds a test takes at least to be listed among the slowest.
const leastSlow = 10

// slowest are the n tests of a list that took longest.
func slowest(list []slowTest, n int) []slowTest {
	slices.SortStableFunc(list, func(a, b slowTest) int { return cmp.Compare(b.took, a.took) })
	return list[:min(n, len(list))]
}

// Write takes a part of the stream.
func (t *tally) Write(p []byte) (int, error) {
	t.rest.Write(p)
	for {
		line, err := t.rest.ReadBytes('\n')
		if err != nil {
			t.rest.Write(line)
			return len(p), nil
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			t.report.Write(line)
			continue
		}
		t.take(e)
	}
}

func (t *tally) take(e event) {
	if t.output == nil {
		t.output = map[string][]string{}
	}
	switch e.Action {
	case "output":
		t.output[e.Test] = append(t.output[e.Test], e.Output)
		t.race = t.race || strings.Contains(e.Output, "WARNING: DATA RACE")
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	name := t.pkg + "." + e.Test
	if e.Test != "" && e.Elapsed >= leastSlow {
		t.slow = append(t.slow, slowTest{strings.TrimPrefix(name, module+"/") + " as " + t.as, e.Elapsed})
	}
	skipped := e.Action == "skip" && e.Test != "" && !maySkip(t.as, name)
	bad := e.Action == "fail" || skipped
	if bad && (e.Test != "" || t.failed == 0) {
		fmt.Fprintf(&t.report, "--- %s %s as %s\n", strings.ToUpper(e.Action), strings.TrimSuffix(name, "."), t.as)
		lines := t.output[e.Test]
		if len(lines) > 80 { // the reason may stand first, and a record after it
			lines = append(append(lines[:20:20], fmt.Sprintf("... %d lines ...\n", len(lines)-60)), lines[len(lines)-40:]...)
		}
		t.report.WriteString(strings.Join(lines, ""))
	}
	if e.Action == "fail" && e.Test != "" {
		t.note(e.Test)
	}
	switch {
	case e.Test != "" && !strings.Contains(e.Test, "/") && bad, e.Test == "" && bad && t.failed == 0, skipped:
		t.failed++
	case e.Test != "" && !strings.Contains(e.Test, "/"):
		t.passed++
	}
	delete(t.output, e.Test)
}

// note keeps the name of a test or part of one that failed.
func (t *tally) note(test string) {
	if t.tests == nil {
		t.tests = map[string][]string{}
	}
	top, part, _ := strings.Cut(test, "/")
	part, _, _ = strings.Cut(part, "/")
	if parts := t.tests[top]; part != "" && !slices.Contains(parts, part) {
		t.tests[top] = append(parts, part)
	} else {
		t.tests[top] = parts
	}
}

// end closes the stream: a program that printed no result failed.
func (t *tally) end(err error) {
	if line, rerr := bufio.NewReader(&t.rest).ReadString('\n'); rerr != nil && line != "" {
		t.report.WriteString(line + "\n")
	}
	switch {
	case err != nil && t.failed == 0:
		t.failed++
		fmt.Fprintf(&t.report, "%s as %s: %v\n", t.pkg, t.as, err)
	case t.passed+t.failed == 0:
		t.failed++
		fmt.Fprintf(&t.report, "%s as %s: no test was run\n", t.pkg, t.as)
	}
}

// plain is what a reader of a log may see: no controls but line ends and tabs.
func plain(text string) string {
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
