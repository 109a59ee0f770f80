package main

import (
	"cloister/script/check/tally"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeProgram is a test program whose tests fail when it is run first and do as then says
// when it is run again.
const fakeProgram = `#!/bin/sh
cd "$(dirname "$0")"
for a; do case $a in -test.run=*) echo "$a" >>runs;; esac; done
echo "=== RUN   TestA"; echo "--- PASS: TestA (0.00s)"
echo "=== RUN   TestB"; echo "=== RUN   TestB/one"
if [ -e ran ]; then sh ./then; exit; fi
touch ran
sh ./first
`

const (
	passes = `echo "--- PASS: TestB (0.00s)"; echo "    --- PASS: TestB/one (0.00s)"; echo PASS`
	fails  = `echo "--- FAIL: TestB (0.00s)"; echo "    --- FAIL: TestB/one (0.00s)"; echo FAIL; exit 1`
	races  = `echo "WARNING: DATA RACE"; ` + fails
	panics = `echo "panic: no"; exit 2`
)

func TestAgain(t *testing.T) {
	bin := t.TempDir()
	r := &runner{counts: &counts{ctx: context.Background()}, machine: &machine{}, bin: bin, root: true}
	if out, err := r.output("go", "build", "-o", filepath.Join(bin, "test2json"), "cmd/test2json"); err != nil {
		t.Fatal(out, err)
	}
	for name, c := range map[string]struct {
		first, then            string
		passed, failed, flakes int
		run                    string
	}{
		"passes the second time": {fails, passes, 2, 0, 1, `^(TestB)$/^(one)$`},
		"fails both times":       {fails, fails, 1, 1, 0, `^(TestB)$/^(one)$`},
		"a data race":            {races, passes, 1, 1, 0, ""},
		"crashed once":           {panics, passes, 2, 0, 1, ""},
		"crashed twice":          {panics, panics, 1, 1, 0, ""},
		"passes":                 {passes, fails, 2, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"fake.test": fakeProgram, "first": c.first, "then": c.then} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			r := &runner{counts: &counts{ctx: context.Background()}, machine: r.machine, bin: bin, root: true}
			r.counted("a", "a", filepath.Join(dir, "fake.test"), cmd{})
			r.again()
			if r.passed != c.passed || r.failed != c.failed || len(r.flaky) != c.flakes {
				t.Errorf("%d passed, %d failed, flaky: %q", r.passed, r.failed, r.flaky)
			}
			if runs, _ := os.ReadFile(filepath.Join(dir, "runs")); strings.TrimSpace(string(runs)) != strings.TrimSpace("-test.run="+c.run) && c.run != "" {
				t.Errorf("ran again: %q", runs)
			}
		})
	}
}

func TestTooManyFailuresAreNotRunAgain(t *testing.T) {
	r := &runner{counts: &counts{ctx: context.Background(), failed: mostAgain + 1}, machine: &machine{}}
	r.failures = []failure{{tally: &tally.Tally{Failed: mostAgain + 1}}}
	r.again() // it would need test2json
	if r.failed != mostAgain+1 || len(r.flaky) != 0 {
		t.Errorf("%d failed, flaky: %q", r.failed, r.flaky)
	}
}
