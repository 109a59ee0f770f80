package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/script/check/processors"
	"cloister/script/check/racing"
	"cloister/script/check/tally"
)

const module = "cloister"

// How many test programs run at the same time, and parallel how many tests of each: most
// of them wait, and those that drive the product have the other programs built beside them.
// One more starts whenever a share of the processors was idle for a moment: a machine that is
// busy is not given more to do, whose tests would then wait in vain.
const (
	drivingAtOnce = 3
	othersAtOnce  = 4
	besideAtOnce  = 3 // beside containers and attacks
	mostAtOnce    = 8
	spare         = 0.25
	lookEvery     = 500 * time.Millisecond
	parallel      = "-test.parallel=4"
)

// slowFirst are the packages that take longest, started first.
var slowFirst = []string{"cmd/cloister/realtest", "cmd/cloister", "cmd/cloister/loadtest", "cmd/cloister/webtest",
	"cmd/cloister/servetest", "egress", "sandbox/native", "state/store", "guardian", "hostexec", "sandbox/kubernetes", "serve/snapshots",
	"", "secret/inject", "cmd/cloister/aftertest", "sandbox/localuser", "git", "audit/bucket", "config", "session/terminal",
	"guardian/notify", "serve/servertest", "devcontainer/oracletest", "internal/noecho"}

// A job is one package's tests by one user.
type job struct {
	pkg  string // from the top of the tree
	user bool   // as the ordinary user
	only string // a pattern of tests; empty: all
}

func (r *runner) test() { r.tests(true, false) }

// wholly runs as root what the plan runs as an ordinary user: aboveAll.
func (r *runner) wholly() {
	if !r.rootOnly("all tests as root") {
		return
	}
	if !r.testPrograms() || !r.product() || !r.agents() {
		return
	}
	var jobs []job
	for pkg := range aboveAll {
		jobs = append(jobs, job{pkg: pkg})
	}
	r.inOrder(jobs, drivingAtOnce)
}

func (r *runner) user() {
	if !r.root {
		r.say("note  user: this is an ordinary user already\n")
		return
	}
	r.tests(false, true)
}

// tests runs each package's test program: as who started this, and those that depend
// on the user once more as an ordinary one.
func (r *runner) tests(asRoot, asUser bool) {
	if others, ok := r.driving(asRoot, asUser); ok {
		r.inOrder(others, othersAtOnce)
	}
}

// driving runs the tests that drive the product. They mostly wait, so that the programs of
// the others are built beside them; the others are returned.
func (r *runner) driving(asRoot, asUser bool) (others []job, ok bool) {
	asUser = asUser && r.root
	packages, ok := r.packages()
	if !ok {
		return nil, false
	}
	var compiled, installed bool
	together(
		func() { compiled = r.drivingPrograms(packages) && r.product() },
		func() { installed = r.agents() && (!asUser || r.machine.tree()) }) // mostly waits for a registry
	if !compiled || !installed {
		return nil, false
	}
	var driving []job
	add := func(j job) {
		if aboveAll[j.pkg] != "" {
			driving = append(driving, j)
		} else {
			others = append(others, j)
		}
	}
	for _, pkg := range packages {
		if asRoot {
			j := job{pkg: pkg}
			if r.root {
				j.only = aboveAll[pkg]
			}
			add(j)
		}
		if asUser && independent[pkg] == "" && onceEnough[pkg] == "" {
			add(job{pkg: pkg, user: true, only: dependent[pkg]})
		}
	}
	built := make(chan bool, 1)
	low := *r
	low.nice = true
	go func() { built <- low.otherPrograms(packages) }()
	r.inOrder(driving, drivingAtOnce)
	return others, <-built
}

// inOrder runs jobs, the slowest first: so many at once, and more while processors are idle.
func (r *runner) inOrder(jobs []job, atOnce int) {
	slices.SortStableFunc(jobs, func(a, b job) int { return rank(a.pkg) - rank(b.pkg) })
	path := r.h2spec() + ":" + os.Getenv("PATH")
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	var meter processors.Meter
	meter.Idle()
	ended, running := make(chan struct{}), 0
	for _, j := range jobs {
		for starts := running < atOnce; !starts; {
			select {
			case <-ended:
				running--
				starts = running < atOnce
			case <-look.C:
				starts = meter.Idle() > spare && running < mostAtOnce
			}
		}
		running++
		go func() {
			r.test1(j, path)
			ended <- struct{}{}
		}()
	}
	for ; running > 0; running-- {
		<-ended
	}
}

// rank is a package's place in slowFirst, the others after them.
func rank(pkg string) int {
	if at := slices.Index(slowFirst, pkg); at >= 0 {
		return at
	}
	return len(slowFirst)
}

// packages are those that have tests, from the top of the tree.
func (r *runner) packages() (packages []string, ok bool) {
	list, err := r.output("go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	if err != nil {
		return nil, r.check("list the packages", func(io.Writer) error { return errors.New(list) })
	}
	for pkg := range strings.FieldsSeq(list) {
		packages = append(packages, strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"))
	}
	return packages, true
}

// testPrograms builds the test program of each package.
func (r *runner) testPrograms() bool {
	packages, ok := r.packages()
	return ok && r.drivingPrograms(packages) && r.otherPrograms(packages)
}

// drivingPrograms builds those of aboveAll, without the race detector: what they test is
// the built product, and the detector sees only the test.
func (r *runner) drivingPrograms(packages []string) bool {
	return r.once("build the tests that drive the product", func(out io.Writer) error {
		words := []string{"go", "test", "-c", "-vet=off", "-o", r.bin + "/"}
		for _, pkg := range packages {
			if aboveAll[pkg] != "" {
				words = append(words, module+"/"+pkg)
			}
		}
		return errors.Join(r.run(out, cmd{words: words}),
			// It has the name of cmd/cloister's, and no goroutine: with the detector it took four times as long.
			r.run(out, cmd{words: []string{"go", "test", "-c", "-vet=off", "-o", filepath.Join(r.bin, "top.test"), "."}}),
			r.run(out, cmd{words: []string{"go", "build", "-o", filepath.Join(r.bin, "test2json"), "cmd/test2json"}}))
	})
}

// otherPrograms builds all others without what only a debugger reads, and with the race detector
// those that could have a race: of the rest the product's own compiled packages serve.
func (r *runner) otherPrograms(packages []string) bool {
	return r.once("build the other tests", func(out io.Writer) error {
		list, err := r.output("go", "list", "-json="+racing.Packages, "./...")
		if err != nil {
			return err
		}
		could, err := racing.Programs(list)
		if err != nil {
			return err
		}
		build := func(to string, race bool, packages ...string) error {
			c := cmd{words: []string{"go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", to}}
			if race {
				c.words, c.env = append(c.words, "-race"), []string{"CGO_ENABLED=1"}
			}
			c.words = append(c.words, packages...)
			return r.run(out, c)
		}
		var errs []error
		named := map[string]bool{}
		for pkg := range aboveAll {
			named[filepath.Base(pkg)] = true
		}
		rest := map[bool][]string{}
		for _, pkg := range packages {
			base, full := filepath.Base(pkg), module+"/"+pkg
			switch {
			case pkg == "" || aboveAll[pkg] != "":
			case named[base]: // go test -c wants a program for each name
				errs = append(errs, build(r.dashed(pkg), could[full], full))
			default:
				rest[could[full]] = append(rest[could[full]], full)
			}
			named[base] = true
		}
		for race, packages := range rest {
			errs = append(errs, build(r.bin+"/", race, packages...))
		}
		return errors.Join(errs...)
	})
}

// program is the file of a package's tests.
func (r *runner) testProgram(pkg string) string {
	if pkg == "" {
		return filepath.Join(r.bin, "top.test")
	}
	if _, err := os.Stat(r.dashed(pkg)); err == nil {
		return r.dashed(pkg)
	}
	return filepath.Join(r.bin, filepath.Base(pkg)+".test")
}

// dashed is the file of a package's tests whose last name another package has.
func (r *runner) dashed(pkg string) string {
	return filepath.Join(r.bin, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// test1 runs one package's tests.
func (r *runner) test1(j job, path string) {
	c := cmd{dir: filepath.Join(".", j.pkg), user: j.user}
	if j.user {
		c.dir = filepath.Join(r.machine.home(), "tree", j.pkg)
	} else {
		c.env = []string{"PATH=" + path, "CLOISTER_TEST_NEEDS=h2spec " + claimed, "CLOISTER_TEST_BINARY=" + filepath.Join(r.bin, "cloister")}
		if r.root {
			c.env[1] += " root"
		}
	}
	name := "."
	if j.pkg != "" {
		name = j.pkg
	}
	flags := []string{"-test.timeout=25m", parallel}
	if j.only != "" {
		flags = append(flags, "-test.run="+j.only)
	}
	r.counted(name, j.pkg, r.testProgram(j.pkg), c, flags...)
}

// counted runs a test program and counts its tests.
func (r *runner) counted(name, pkg, program string, c cmd, flags ...string) {
	if r.ctx.Err() != nil {
		return
	}
	f := failure{name: name, pkg: pkg, program: program, c: c, flags: flags}
	began := time.Now()
	t, out, err := r.stream(f, flags)
	f.tally = t
	r.mu.Lock()
	r.passed, r.failed = r.passed+t.Passed, r.failed+t.Failed
	r.slow = append(r.slow, t.Slow...)
	word := "ok"
	if t.Failed > 0 {
		word = "FAIL"
	}
	fmt.Printf("%-5s %-42s %4ds  cpu %4ds  %d passed, %d failed\n", word, name+" as "+t.As,
		int(time.Since(began).Seconds()), int(out.cpu.Seconds()), t.Passed, t.Failed)
	for line := range strings.Lines(t.Report.String()) {
		fmt.Print("      | " + tally.Plain(line))
	}
	r.mu.Unlock()
	f.took = time.Since(began)
	r.failedFirst(f, err)
}

// stream runs a test program; the tally has what its tests came to.
func (r *runner) stream(f failure, flags []string) (*tally.Tally, *counting, error) {
	c := f.c
	t := &tally.Tally{As: "root", Pkg: strings.TrimSuffix(module+"/"+f.pkg, "/"), MaySkip: maySkip}
	if c.user || !r.root {
		t.As = "user"
	}
	words := slices.Clone(c.words) // what the program is started by
	if c.user {
		words, c.user, c.env = append(words, r.machine.asUser(c.env)...), false, nil
	}
	c.words = append(append(words, f.program, "-test.v=test2json"), flags...)
	c.within = 28 * time.Minute
	out := &counting{Tally: t}
	err := r.events(out, c, t.Pkg)
	t.End(err)
	return t, out, err
}

// events runs a test program; out gets what test2json makes of its output. test2json
// could start the program itself, but it ignores SIGINT, and so would the program.
func (r *runner) events(out *counting, c cmd, pkg string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	converted := make(chan error, 1)
	go func() { // its processor time does not count, and out counts for one program at a time
		converted <- r.run(struct{ io.Writer }{out}, cmd{words: []string{filepath.Join(r.bin, "test2json"), "-t", "-p", pkg}, in: read})
	}()
	err = r.run(spending{write, out}, c)
	return errors.Join(err, write.Close(), <-converted)
}

// spending is a writer beside which processor time is counted.
type spending struct {
	*os.File
	on *counting
}

func (s spending) Spent(d time.Duration) { s.on.Spent(d) }

// counting is a tally that also knows the processor time.
type counting struct {
	*tally.Tally
	cpu time.Duration
}

func (c *counting) Spent(d time.Duration) { c.cpu += d }

// fuzz counts inputs, not seconds, unless FUZZ says otherwise: when its time runs out
// within an input, go test calls its own deadline a failure (golang/go#75804).
func (r *runner) fuzz() {
	amount := os.Getenv("FUZZ")
	if amount == "" {
		amount = "5000x"
	}
	list, err := r.output("git", "grep", "--untracked", "-oE", `^func Fuzz[A-Za-z0-9_]*`, "--", "*_test.go")
	if err != nil || list == "" {
		r.check("fuzz targets", func(io.Writer) error { return fmt.Errorf("none found: %w", err) })
	}
	for line := range strings.Lines(list) {
		file, target, _ := strings.Cut(strings.TrimSpace(line), ":func ")
		dir := filepath.Dir(file)
		r.command(target+" "+dir, "go", "test", "-run", "^$", "-fuzz", "^"+target+"$", "-fuzztime", amount, "-fuzzminimizetime", "10x", "./"+dir)
	}
}
