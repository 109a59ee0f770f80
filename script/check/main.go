// Command check is the runner behind script/test: every check that a change must pass.
//
// It promises that each check and each top-level Go test counts once, that a skipped
// test fails unless mayskip.go has a reason for it, and that whatever the checks leave
// behind on the machine is reported and fails too. The last line has the numbers.
//
// It does not know what the tests prove: it builds, starts and counts them.
//
// Most readers want the table of parts below, and the plan after it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A part is a group of checks with a name.
type part struct {
	name  string
	what  string
	check func(*runner)
}

// parts are all parts. Those that are not in the plan run only by name.
var parts = []part{
	{"format", "gofmt has nothing to change", (*runner).format},
	{"vet", "go vet, as the host builds", (*runner).vet},
	{"lint", "golangci-lint as .golangci.yml configures it", (*runner).lint},
	{"vuln", "no known vulnerability is reachable", (*runner).vuln},
	{"tidy", "go.mod and go.sum have no leftovers", (*runner).tidy},
	{"cross", "the types hold for every platform without cgo; CROSS=1 compiles and vets", (*runner).cross},
	{"test", "the Go tests as who started this, the longest as root only by choice", (*runner).test},
	{"user", "the tests that depend on the user, as an ordinary one", (*runner).user},
	{"escape", "the attack corpus natively, as root and as an ordinary user", (*runner).escape},
	{"docker", "containers: attacks, driver and agents on a Docker and a Podman of its own", (*runner).docker},
	{"gvisor", "the level of that name: its program built, conformance as root and as an ordinary user", (*runner).gvisor},
	{"stories", "the stories of the command line by level, and machines without memory (KINDS; microvm by name)", (*runner).stories},
	{"microvm", "the level of that name: machines booted without acceleration", (*runner).microvm},
	{"root", "as root, all tests that drive the whole product", (*runner).wholly},
	{"start", "the start time beside bwrap's", (*runner).start},
	{"bench", "the bench itself, in its short form", (*runner).bench},
	{"fuzz", "every fuzz target for 5000 inputs, or FUZZ=10m for ten minutes each", (*runner).fuzz},
	{"differential", "what real servers obey is what was judged; writes docs/differential.md", (*runner).differential},
	{"lsm", "the kernel's judge of files in guests with two kernels; writes kernel/lsm/testdata", (*runner).lsm},
	{"clients", "which programs trust a session's authority; writes docs/clients.md", (*runner).clients},
	{"time", "checkpoints, forks, applies and work beside their peers; writes docs/time-figures.md", (*runner).timeFigures},
	{"layers", "write which attacks hold with each layer left out (ATTEMPTS is a pattern)", (*runner).layers},
	{"columns", "write which attacks hold in each kind of cloister (KINDS, ATTEMPTS; microvm by name, and hours)", (*runner).columns},
}

// The plan of a run without arguments. What needs processors only runs at the lowest
// priority beside what mostly waits: first the tests that drive the product, then the others and
// the attacks beside containers. What measures time runs alone at the end. The bench in its
// short form measures nothing, and shows beside the attacks, which wait, that it works.
var (
	background    = []string{"format", "tidy", "lint", "cross", "vuln"} // lint has what vet has
	afterOthers   = []string{"escape", "bench"}                         // beside each other
	besideWaiting = []string{"docker"}
	alone         = []string{"start"}
)

func main() {
	work := flag.String("work", "", "an empty folder for everything that is made")
	flag.Usage = func() { usage(os.Stderr) }
	flag.Parse()
	for _, name := range flag.Args() {
		if find(name) == nil {
			fmt.Fprintf(os.Stderr, "unknown part %s\n", name)
			usage(os.Stderr)
			os.Exit(2)
		}
	}
	// Catching SIGINT also undoes its being ignored, which tests that type ^C rely on.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	r, err := newRunner(ctx, *work)
	if err == nil {
		err = r.machine.installNeeds()
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	r.before()
	if flag.NArg() == 0 {
		r.everything()
	} else {
		r.parts(flag.Args())
		r.again()
	}
	code := r.end()
	stop()
	os.Exit(code)
}

func usage(to *os.File) {
	fmt.Fprintln(to, "usage: script/test [PART...]")
	for _, p := range parts {
		fmt.Fprintf(to, "  %-12s %s\n", p.name, p.what)
	}
	fmt.Fprintln(to, "Without PART: all but vet (lint has it), root, gvisor, stories, microvm, fuzz, differential, lsm, clients, time, layers and columns.")
}

func find(name string) *part {
	if i := slices.IndexFunc(parts, func(p part) bool { return p.name == name }); i >= 0 {
		return &parts[i]
	}
	return nil
}

// everything runs the plan.
func (r *runner) everything() {
	var beside sync.WaitGroup
	beside.Go(func() {
		low := *r
		low.nice = true
		low.parts(background)
	})
	var others []job
	r.timed("tests that drive the product", func() { others, _ = r.driving(true, true) }) // a failure counts
	together(func() {
		r.timed("other tests", func() { r.inOrder(others, besideAtOnce) })
		r.beside(afterOthers)
	}, func() { r.beside(besideWaiting) })
	beside.Wait()
	r.again()
	r.parts(alone)
}

// beside runs parts side by side.
func (r *runner) beside(names []string) {
	var checks []func()
	for _, name := range names {
		checks = append(checks, func() { r.parts([]string{name}) })
	}
	together(checks...)
}

// parts runs parts in the order given. Those that are test and user run together,
// which mostly wait.
func (r *runner) parts(names []string) {
	if len(names) == 2 && names[0] == "test" && names[1] == "user" {
		r.timed("test user", func() { r.tests(true, true) })
		return
	}
	for _, name := range names {
		r.timed(name, func() { find(name).check(r) })
	}
}

// timed runs a part and says how long it took.
func (r *runner) timed(name string, check func()) {
	began := time.Now()
	check()
	r.say("----  %s: %d s\n", name, int(time.Since(began).Seconds()))
}
