// Package listed times what statements about files and programs cost where no kernel judges
// them: the same work inside, in sessions with a list, with a forbid, in mode record and
// without any of these, in turns.
//
// What is timed inside is the work alone; the processor's time is that of the whole command,
// with the process that records and the start of the session.
//
// The call most readers want is [Measure].
package listed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Word makes the bench the program that works inside.
const Word = "listed"

// Contenders, the peer first.
var Contenders = []string{
	"no statement", "lists of files and programs", "a folder that is not written", "a folder that is not read", "mode record",
}

// Worked is what a series of the processor's time has behind its contender's name.
const Worked = ", processor"

// A Subject is one kind of work; Times is how often one round does it.
type Subject struct {
	Title, Word, Unit string
	Times             int
}

// Files is how many the project has.
const Files = 20_000

const steps = 200

// Subjects are all of them.
var Subjects = []Subject{
	{"open and close a file six folders deep", "open", "µs", 20_000},
	{"execute /bin/true", "exec", "µs", 400},
	{"git status of 20,000 files", "git", "ms", 5},
	{"a build of 200 steps that read 20,000 files", "build", "ms", 1},
}

// Options say where, and with which programs.
type Options struct {
	Dir    string // everything is made in it; the caller removes it
	Rounds int
	Short  bool // a twentieth of it all: proves that it works
	// In makes a command of the world that is measured; Cloister and Bench are programs there.
	In              func(ctx context.Context, program string, args ...string) *exec.Cmd
	Cloister, Bench string
	// Add takes a figure.
	Add func(subject, contender, unit string, value float64)
}

// less is a twentieth in short.
func (o Options) less(n int) int {
	if o.Short {
		return max(1, n/20)
	}
	return n
}

// Measure has the work done in turns. A guardian must be running.
func Measure(ctx context.Context, o Options) error {
	project := filepath.Join(o.Dir, "project")
	if err := o.prepare(ctx, project); err != nil {
		return fmt.Errorf("make a project: %w", err)
	}
	for n := range o.Rounds {
		for _, s := range Subjects {
			for i := range Contenders {
				if err := o.work(ctx, project, s, (n+i)%len(Contenders)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// words are what a contender's session is started with.
func (o Options) words(i int) []string {
	if i == len(Contenders)-1 {
		return []string{"--mode", "record"}
	}
	if i == 0 {
		return nil
	}
	return []string{"--policy", filepath.Join(o.Dir, strconv.Itoa(i)+".cedar")}
}

// work does one subject once.
func (o Options) work(ctx context.Context, project string, s Subject, i int) error {
	args := append([]string{"run", "--isolation", "native"}, o.words(i)...)
	cmd := o.In(ctx, o.Cloister, append(args, "--", "./work", Word, s.Word, strconv.Itoa(o.less(s.Times)))...)
	cmd.Dir = project
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s, %s: %w: %s", s.Title, Contenders[i], err, bytes.TrimSpace(errs.Bytes()))
	}
	ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		return fmt.Errorf("%s, %s: it printed %q", s.Title, Contenders[i], out)
	}
	unit := map[string]float64{"µs": 1e3, "ms": 1e6}[s.Unit]
	o.Add(s.Title, Contenders[i], s.Unit, ns/unit)
	worked := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	o.Add(s.Title, Contenders[i]+Worked, "ms", float64(worked)/1e6)
	return nil
}

// prepare writes the project, the program and the policies.
func (o Options) prepare(ctx context.Context, project string) error {
	deep := filepath.Join(project, "a/b/c/d/e")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(deep, "f"), []byte("x\n"), 0o644); err != nil {
		return err
	}
	for step := range o.less(steps) {
		dir := filepath.Join(project, "src", strconv.Itoa(step))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for f := range Files / steps {
			text := strings.Repeat(fmt.Sprintf("%d of %d\n", f, step), 20)
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(f)), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	text, err := os.ReadFile(o.Bench)
	if err == nil {
		err = os.WriteFile(filepath.Join(project, "work"), text, 0o755)
	}
	if err != nil {
		return err
	}
	for _, words := range [][]string{
		{"init", "-q", "."}, {"add", "-A", "src", "a"},
		{"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-q", "-m", "first"},
	} {
		if out, err := o.In(ctx, "git", append([]string{"-C", project}, words...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", words[0], err, out)
		}
	}
	for i, policy := range []string{
		1: `permit (principal, action == Action::"FileOpenReadOnly", resource) when { resource in [Dir::"/usr", Dir::"/etc", Dir::"/lib", Dir::"/lib64", Dir::"/bin"] };
permit (principal, action == Action::"FileOpen", resource) when { resource in [Dir::"` + project + `", Dir::"/tmp"] };
permit (principal, action == Action::"ProcessExec", resource) when { resource in [Dir::"/usr", Dir::"/lib", Dir::"/lib64", Dir::"/bin", File::"` + project + `/work"] };
`,
		2: `forbid (principal, action == Action::"FileOpenReadWrite", resource == Dir::"` + project + `/a/b");` + "\n",
		3: `forbid (principal, action == Action::"FileOpen", resource == Dir::"/usr/share/doc");` + "\n",
	} {
		if policy != "" {
			if err := os.WriteFile(filepath.Join(o.Dir, strconv.Itoa(i)+".cedar"), []byte(policy), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// Inside does the work, and prints how long one of it took in nanoseconds.
func Inside(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("listed: want a subject and how often")
	}
	times, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("listed: %w", err)
	}
	one := map[string]func() error{
		"open": func() error {
			f, err := os.Open("a/b/c/d/e/f")
			if err != nil {
				return err
			}
			return f.Close()
		},
		"exec": func() error { return exec.CommandContext(ctx, "/bin/true").Run() },
		"git": func() error {
			return exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Run()
		},
		"build": func() error {
			const script = "mkdir -p out; i=0; while [ -d src/$i ]; do cat src/$i/* | sha256sum >out/$i; i=$((i+1)); done"
			return exec.CommandContext(ctx, "sh", "-ec", script).Run()
		},
	}[args[0]]
	if one == nil {
		return fmt.Errorf("listed: nothing is called %q", args[0])
	}
	if args[0] != "build" { // what is read first is read from the disk
		if err := one(); err != nil {
			return fmt.Errorf("listed: %s: %w", args[0], err)
		}
	}
	began := time.Now()
	for range times {
		if err := one(); err != nil {
			return fmt.Errorf("listed: %s: %w", args[0], err)
		}
	}
	_, err = fmt.Fprintln(os.Stdout, float64(time.Since(began).Nanoseconds())/float64(times))
	return err
}
