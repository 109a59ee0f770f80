package main

import (
	"bytes"
	"cloister/script/check/reaper"
	"cloister/script/check/tally"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A runner runs checks and counts them.
type runner struct {
	*counts
	machine *machine
	work    string // everything that is made, removed at the end
	bin     string // what is built
	tools   string // linters and agents, kept from run to run
	root    bool
	nice    bool // commands get the lowest priority
}

// counts is what all parts share.
type counts struct {
	ctx            context.Context // of the whole run: a signal ends every command
	began          time.Time
	mu             sync.Mutex
	passed, failed int
	failures       []failure // what again has not run yet
	flaky          []string  // what passed only when it was run again
	slow           []tally.Slow
	made           map[string]*once
	undo           []func()
	was            map[string][]string // what the machine had before
}

// once is something that is made once, whoever needs it first.
type once struct {
	sync.Once
	ok bool
}

func newRunner(ctx context.Context, work string) (*runner, error) {
	if work == "" {
		return nil, errors.New("script/test starts this program")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	r := &runner{
		counts: &counts{ctx: ctx, began: time.Now(), made: map[string]*once{}},
		work:   work, bin: filepath.Join(work, "bin"), tools: os.Getenv("CLOISTER_TOOLS"), root: os.Getuid() == 0,
	}
	if r.tools == "" {
		r.tools = filepath.Join(cache, "cloister-tools")
	}
	for _, dir := range []string{r.bin, r.temp(), filepath.Join(work, "log")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	prefix := os.Getenv("CLOISTER_AGENTS_PREFIX")
	if prefix == "" {
		prefix = filepath.Join(r.tools, "agents")
	}
	flags, err := exec.CommandContext(ctx, "go", "env", "GOFLAGS").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	for key, value := range map[string]string{
		// As it is released, and so that a second clone compiles nothing again.
		"GOFLAGS":                strings.TrimSpace(string(flags)) + " -trimpath",
		"TMPDIR":                 r.temp(),
		"CGO_ENABLED":            "0", // one set of compiled packages for vet, lint and the product
		"CLOISTER_AGENTS_PREFIX": prefix,
		"GORACE":                 lateRaces,
	} {
		if err := os.Setenv(key, value); err != nil {
			return nil, err
		}
	}
	r.apart(r.temp())
	r.machine = &machine{r: r}
	return r, reaper.Adopt()
}

// lateRaces is how long a program with the race detector stays when it is over. Its own
// word is a second, which 200 test programs and the processes of each would wait.
const lateRaces = "atexit_sleep_ms=50"

// apart has ext4 begin each folder of dir in a part of the disk of its own: before it takes a
// free inode it looks at every one beside it that was removed in the last minutes, and tests
// remove many. Another file system refuses the hint, and nothing is different then.
func (r *runner) apart(dirs ...string) {
	_ = exec.CommandContext(r.ctx, "chattr", append([]string{"+T"}, dirs...)...).Run()
}

func (r *runner) temp() string { return filepath.Join(r.work, "t") }

func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf(format, args...)
}

// check is one check, quiet unless it fails.
func (r *runner) check(name string, do func(out io.Writer) error) bool {
	if r.ctx.Err() != nil {
		return false
	}
	began := time.Now()
	var out cpuLog
	err := do(&out)
	text := out.String()
	if err != nil {
		text += err.Error() + "\n"
	}
	r.count(name, err == nil, 1, time.Since(began), out.cpu, tail(text, 80))
	return err == nil
}

// command is a check that a command succeeds.
func (r *runner) command(name string, words ...string) bool {
	return r.check(name, func(out io.Writer) error { return r.run(out, cmd{words: words}) })
}

// count adds tests to the numbers and prints their line.
func (r *runner) count(name string, ok bool, n int, took, cpu time.Duration, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	word := "ok"
	if ok {
		r.passed += n
	} else {
		word = "FAIL"
		r.failed += n
	}
	fmt.Printf("%-5s %-42s %4ds  cpu %4ds\n", word, name, int(took.Seconds()), int(cpu.Seconds()))
	if !ok {
		for line := range strings.Lines(text) {
			fmt.Print("      | " + tally.Plain(line))
		}
	}
}

// once is a check of something that several parts need, made by the first.
func (r *runner) once(name string, do func(out io.Writer) error) bool {
	r.mu.Lock()
	made := r.made[name]
	if made == nil {
		made = &once{}
		r.made[name] = made
	}
	r.mu.Unlock()
	made.Do(func() { made.ok = r.check(name, do) })
	return made.ok
}

// later has something undone at the end, the last first.
func (r *runner) later(undo func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = append(r.undo, undo)
}

// end cleans up, looks for what is left, and prints the numbers.
func (r *runner) end() int {
	interrupted := r.ctx.Err() != nil
	if !interrupted {
		r.check("nothing left behind", r.left)
	}
	for _, v := range slices.Backward(r.undo) {
		v()
	}
	if err := os.RemoveAll(r.work); err != nil {
		fmt.Println(err)
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err == nil {
		fmt.Printf("note  %d s on the clock, %d s of processors\n", int(time.Since(r.began).Seconds()), used.Utime.Sec+used.Stime.Sec)
	}
	if interrupted {
		fmt.Printf("ended by a signal: %d passed, %d failed so far\n", r.passed, r.failed)
		return 1
	}
	for _, t := range tally.Slowest(r.slow, 25) {
		fmt.Printf("note  slow: %4.0f s  %s\n", t.Took, t.Name)
	}
	if len(r.flaky) > 0 {
		fmt.Printf("note  flaky, passed only when run again: %s\n", strings.Join(r.flaky, ", "))
	}
	fmt.Printf("%d passed, %d failed\n", r.passed, r.failed)
	if r.failed > 0 || r.passed == 0 {
		return 1
	}
	return 0
}

// A cmd is a program to run.
type cmd struct {
	words  []string
	dir    string
	in     io.Reader     // nil: nothing
	env    []string      // beside the runner's own
	user   bool          // as the ordinary user, with nothing of root's
	within time.Duration // 0: half an hour
	anyway bool          // even after a signal: it cleans up
}

// run runs a program; out gets what it prints, in order.
func (r *runner) run(out io.Writer, c cmd) error {
	if c.within == 0 {
		c.within = 30 * time.Minute
	}
	ctx := r.ctx
	if c.anyway {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	p := r.program(ctx, c)
	p.Stdin, p.Stdout, p.Stderr = c.in, out, out
	if err := reaper.Start(p); err != nil {
		return err
	}
	err := p.Wait()
	reaper.Reaped(p)
	if log, ok := out.(interface{ Spent(d time.Duration) }); ok {
		log.Spent(p.ProcessState.UserTime() + p.ProcessState.SystemTime())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.words, " "), err)
	}
	return nil
}

// program is the process of a cmd, not yet started.
func (r *runner) program(ctx context.Context, c cmd) *exec.Cmd {
	words := c.words
	switch {
	case c.user:
		words = append(r.machine.asUser(c.env), words...)
	case r.nice:
		words = append([]string{"sh", "-c", aside, "sh"}, words...)
	}
	p := exec.CommandContext(ctx, words[0], words[1:]...)
	p.Dir = c.dir
	p.Env = append(os.Environ(), c.env...)
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = 20 * time.Second
	if r.nice {
		p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	return p
}

// aside gives a command the lowest priority. Where the kernel schedules sessions as groups
// (sched(7), autogroup) a nice value says nothing outside the command's own session.
const aside = `{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"`

// output is what a program prints.
func (r *runner) output(words ...string) (string, error) { return r.outputOf(cmd{words: words}) }

func (r *runner) outputOf(c cmd) (string, error) {
	var out bytes.Buffer
	err := r.run(&out, c)
	return out.String(), err
}

// A cpuLog is the output of commands with the processor time they took.
type cpuLog struct {
	bytes.Buffer
	cpu time.Duration
}

func (l *cpuLog) Spent(d time.Duration) { l.cpu += d }

// tail is the end of a text.
func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
