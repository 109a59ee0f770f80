package main

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mostAgain bounds how many failed tests are run a second time: more failures than that
// have a cause.
const mostAgain = 10

// longestAgain bounds a program that is run a second time as a whole.
const longestAgain = 5 * time.Minute

// A failure is a test program in which tests failed, with what a second run needs.
type failure struct {
	name, pkg, program string
	c                  cmd
	flags              []string
	tally              *tally
	took               time.Duration
	crashed            bool // the program ended early, so that other tests did not run
}

// failedFirst keeps a failure for again. A data race is none that a second run may settle:
// the detector is never wrong.
func (r *runner) failedFirst(f failure, err error) {
	if f.tally.failed == 0 || f.tally.race {
		return
	}
	var exit *exec.ExitError
	f.crashed = !errors.As(err, &exit) || exit.ExitCode() != 1 || len(f.tally.tests) != f.tally.failed
	if f.crashed && f.took > longestAgain {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, f)
}

// again runs failed tests once more. One that passes is counted as passed and named as
// flaky. Attempts of the corpus never come here: an attack that gets through once in
// two is a hole. docs/decisions/0045 has the reasons.
func (r *runner) again() {
	r.mu.Lock()
	list := r.failures
	r.failures = nil
	n := len(r.flaky)
	for _, f := range list {
		n += f.tally.failed
	}
	r.mu.Unlock()
	if n > mostAgain {
		return
	}
	for _, f := range list {
		r.oneAgain(f)
	}
}

func (r *runner) oneAgain(f failure) {
	flags := f.flags
	if !f.crashed {
		flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return strings.HasPrefix(flag, "-test.run=") })
		flags = append(flags, "-test.run="+f.tally.pattern())
	}
	second, _, _ := r.stream(f, flags)
	if second.failed > 0 || second.passed < f.tally.failed {
		r.say("note  %s as %s: failed again\n", f.name, f.tally.as)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed -= f.tally.failed
	if f.crashed {
		r.passed += second.passed - f.tally.passed
	} else {
		r.passed += f.tally.failed
	}
	for name := range maps.Keys(f.tally.tests) {
		r.flaky = append(r.flaky, f.pkg+"."+name+" as "+f.tally.as)
	}
	if f.crashed {
		r.flaky = append(r.flaky, f.pkg+" as "+f.tally.as)
	}
	fmt.Printf("note  %s as %s: passed when it was run again\n", f.name, f.tally.as)
}

// pattern is a -test.run that names the tests that failed, and of their parts those
// that failed.
func (t *tally) pattern() string {
	var tops, parts []string
	for top, below := range t.tests {
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
