package lsm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/internal/needs"
	"cloister/kernel/lsm"
)

// files are how many the repository of the costs has, in folders of 100.
const files = 20_000

// The costs are measured side by side: the same commands in the same guest, in turns, without the
// programs and with them, in a session that is judged. The guest's time counts instructions, so that
// only one beside the other means anything; nothing is held against a bound.
var costs = []struct {
	name string
	p    *lsm.Policy
}{
	{"no programs", nil},
	{"a policy of programs alone", &lsm.Policy{Permit: lsm.All, Guarded: true, Rules: []lsm.Rule{tools}}},
	{"a policy of everything", &lsm.Policy{Permit: lsm.All, Guarded: true, Rules: []lsm.Rule{tools, secret, kept}}},
}

// rounds of all of them; the best counts.
const rounds = 1

// TestCost boots the newest kernel that CLOISTER_LSM_KERNELS names where CLOISTER_LSM_COST is
// set, and has it measure.
func TestCost(t *testing.T) {
	list := strings.Split(os.Getenv("CLOISTER_LSM_KERNELS"), ":")
	if list[0] == "" || os.Getenv("CLOISTER_LSM_COST") == "" {
		t.Skip("CLOISTER_LSM_COST is not set: it takes minutes, and its last result is kept: script/test lsm")
	}
	g := needs.Guest{
		Kernel: list[len(list)-1], Modules: []string{"overlay.ko"}, Env: "CLOISTER_GUEST=cost", Steady: true,
		Files: map[string]string{"repository.tar": repository(t)},
	}
	for _, name := range []string{"git", "make", "as"} {
		program := needs.Program(t, "qemu", name)
		g.Files["bin/"+name] = program
		out, err := exec.CommandContext(t.Context(), "ldd", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/lib/") {
				g.Files["lib/x86_64-linux-gnu/"+filepath.Base(word)] = word
			}
		}
	}
	console := g.Boot(t)
	if !strings.Contains(console, "@@ ended 0") {
		t.Fatalf("the guest's measurements failed:\n%s", console)
	}
	if err := writeReport("testdata", "cost", g.Release(t), console); err != nil {
		t.Error(err)
	}
}

// repository is an archive of a repository whose files are all known to git.
func repository(t *testing.T) string {
	t.Helper()
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "repository.tar")
	for i := range files {
		name := source(dir, i)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, assembler(i), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	git := []string{"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-C", dir}
	for _, words := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "all"}, {"gc", "-q"}} {
		if text, err := exec.CommandContext(t.Context(), "git", append(slices.Clone(git), words...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", words[0], err, text)
		}
	}
	if text, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "-cf", out, ".git").CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, text)
	}
	return out
}

func source(dir string, i int) string { return fmt.Sprintf("%s/%03d/%05d.s", dir, i/100, i) }

func assembler(i int) []byte { return fmt.Appendf(nil, "\t.data\nx%05d:\t.quad %d\n", i, i) }

// makefile builds an object of each source: of those that changed.
const makefile = `sources := $(wildcard src/*/*.s)
all: $(sources:.s=.o)
%.o: %.s
	/bin/as -o $@ $<
`

// measureCosts is what the guest does instead of the tests.
func measureCosts() error {
	if err := prepareCosts(); err != nil {
		return err
	}
	best := make([]map[string]int64, len(costs))
	for range rounds {
		texts, err := costsOnce()
		if err != nil {
			return err
		}
		for i, text := range texts {
			if best[i] == nil {
				best[i] = map[string]int64{}
			}
			for line := range strings.Lines(text) {
				what, number, _ := strings.Cut(strings.TrimSpace(line), "\t")
				var n int64
				if _, err := fmt.Sscan(number, &n); err != nil || n <= 0 {
					return fmt.Errorf("%s: %q", costs[i].name, text)
				}
				if old := best[i][what]; old == 0 || n < old {
					best[i][what] = n
				}
			}
		}
	}
	for i, c := range costs {
		for _, what := range []string{"open and close", "execute", "git status", "build"} {
			fmt.Printf("@@ cost\t%s\t%s\t%d\n", c.name, what, best[i][what])
		}
	}
	return nil
}

func prepareCosts() error {
	for _, dir := range []string{"/t/secret/deep/er", "/t/bin", "/t/kept", "/t/repo/src"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	text, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile("/t/repo/program", text, 0o755), os.WriteFile("/t/repo/Makefile", []byte(makefile), 0o644)); err != nil {
		return err
	}
	for i := range files {
		name := source("/t/repo/src", i)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, assembler(i), 0o644)); err != nil {
			return err
		}
		if err := os.WriteFile(strings.TrimSuffix(name, ".s")+".o", nil, 0o644); err != nil {
			return err
		}
	}
	if out, err := exec.CommandContext(context.Background(), "/bin/busybox", "tar", "-C", "/t/repo/src", "-xf", "/repository.tar").CombinedOutput(); err != nil {
		return fmt.Errorf("unpack: %w: %s", err, out)
	}
	if err := os.WriteFile("/t/repo/src/.git/info/exclude", []byte("*.o\n"), 0o644); err != nil {
		return err
	}
	return gitStatus() // it looks at each file once, and knows them then
}

// costsOnce measures without the programs, then loads them and measures in a session with each policy.
func costsOnce() (texts []string, err error) {
	without, err := costOf()
	if err != nil {
		return nil, err
	}
	texts = append(texts, without)
	k, err := lsm.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	s, err := k.Begin(context.Background(), group)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, c := range costs[1:] {
		if err := s.Apply(os.Getpid(), *c.p); err != nil {
			return nil, err
		}
		text, err := costOf()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// costOf has a process of the session's group measure.
func costOf() (string, error) {
	c := exec.CommandContext(context.Background(), "/proc/self/exe")
	c.Env = []string{"CLOISTER_ATTEMPT=costs", "PATH=/bin", "HOME=/tmp"}
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil || strings.Contains(string(out), "broken") || !strings.Contains(string(out), "\nthrough") {
		return "", fmt.Errorf("%w: %s%s", err, out, errs.String())
	}
	return strings.TrimSuffix(strings.TrimSpace(string(out)), "\nthrough"), nil
}

func gitStatus() error {
	c := exec.CommandContext(context.Background(), "/bin/git", "-C", "/t/repo/src", "-c", "safe.directory=*", "status", "--porcelain")
	c.Env = []string{"HOME=/tmp", "PATH=/bin"}
	out, err := c.Output()
	if err == nil && len(out) > 0 {
		return fmt.Errorf("git status: %.200s", out)
	}
	return err
}

// build has make look at all files, and assembles the 40 that changed.
func build() error {
	now := time.Now()
	for i := range 40 {
		if err := os.Chtimes(source("/t/repo/src", i*500), now, now); err != nil {
			return err
		}
	}
	c := exec.CommandContext(context.Background(), "/bin/make", "-s", "-C", "/t/repo", "SHELL=/bin/busybox sh")
	c.Env = []string{"PATH=/bin"}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("make: %w: %.300s", err, out)
	}
	return nil
}

// measure prints what things cost, in nanoseconds: the best of several rounds.
func measure() error {
	if err := joinGroup(); err != nil {
		return err
	}
	file := source("/t/repo/src", files/2)
	for _, c := range []struct {
		name      string
		times, of int
		do        func() error
	}{
		{"open and close", 3, 500, func() error {
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{"execute", 3, 5, runs("/t/repo/program", "true")},
		{"git status", 2, 1, gitStatus},
		{"build", 1, 1, build},
	} {
		least := time.Duration(math.MaxInt64)
		for range c.times {
			began := time.Now()
			for range c.of {
				if err := c.do(); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
			least = min(least, time.Since(began)/time.Duration(c.of))
		}
		fmt.Printf("%s\t%d\n", c.name, least.Nanoseconds())
	}
	return nil
}

// joinGroup makes this process one of the session's, with all that it starts.
func joinGroup() error {
	return os.WriteFile(group+"/cgroup.procs", []byte("0"), 0)
}

func init() { attempts["costs"] = measure }
