package main

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"cloister/script/check/tally"
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
	tally              *tally.Tally
	took               time.Duration
	crashed            bool // the program ended early, so that other tests did not run
}

// failedFirst keeps a failure for again. A data race is none that a second run may settle:
// the detector is never wrong.
func (r *runner) failedFirst(f failure, err error) {
	if f.tally.Failed == 0 || f.tally.Race {
		return
	}
	var exit *exec.ExitError
	f.crashed = !errors.As(err, &exit) || exit.ExitCode() != 1 || len(f.tally.Tests) != f.tally.Failed
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
		n += f.tally.Failed
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
		flags = append(flags, "-test.run="+f.tally.Pattern())
	}
	second, _, _ := r.stream(f, flags)
	if second.Failed > 0 || second.Passed < f.tally.Failed {
		r.say("note  %s as %s: failed again\n", f.name, f.tally.As)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed -= f.tally.Failed
	if f.crashed {
		r.passed += second.Passed - f.tally.Passed
	} else {
		r.passed += f.tally.Failed
	}
	for name := range maps.Keys(f.tally.Tests) {
		r.flaky = append(r.flaky, f.pkg+"."+name+" as "+f.tally.As)
	}
	if f.crashed {
		r.flaky = append(r.flaky, f.pkg+" as "+f.tally.As)
	}
	fmt.Printf("note  %s as %s: passed when it was run again\n", f.name, f.tally.As)
}
