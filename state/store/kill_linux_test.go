package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/state/store"
)

// The kill storm: a process makes checkpoints, applies, undoes, restores, forks and
// collects until it is killed, then the next one goes on in the same store. After each
// kill the project is wholly of one version, the person's own file is there, and each
// checkpoint holds what its message says.
//
// CLOISTER_KILLS chooses how many kills; the figure in docs/performance.md is from 600.

const stormFiles = 12

func stormFile(i int) string {
	return strings.Repeat(fmt.Sprintf("d%d/", i%3), i%3) + fmt.Sprintf("f%d", i)
}

// stormText is long enough that a half file shows.
func stormText(n int) string { return strings.Repeat(strconv.Itoa(n)+"\n", 3000) }

func TestKillStorm(t *testing.T) {
	kills := 20
	if text := os.Getenv("CLOISTER_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	}
	data, project := t.TempDir(), t.TempDir()
	for i := range stormFiles {
		put(t, project, stormFile(i), stormText(0))
	}
	put(t, project, "even", stormText(0))
	put(t, project, "mine", "the person's")
	tick(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	total, during := 0, map[string]int{}
	for i := range kills {
		acts := stormOnce(t, data, project, time.Duration(r.IntN(120_000))*time.Microsecond)
		total += len(acts)
		if len(acts) > 0 {
			during[strings.Fields(acts[len(acts)-1])[0]]++
		}
		if err := stormCheck(data, project); err != nil {
			t.Fatalf("kill %d, after %q: %v", i, acts[max(0, len(acts)-5):], err)
		}
	}
	t.Logf("%d kills in %d acts; killed during %v", kills, total, during)
	if total < kills/2 {
		t.Errorf("only %d acts were begun: the test shows little", total)
	}
}

// stormOnce runs a child for a while after its first act, and kills it.
func stormOnce(t *testing.T, data, project string, after time.Duration) (acts []string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillChild$", "-test.v=false")
	c.Env = append(os.Environ(), "CLOISTER_KILL_DATA="+data, "CLOISTER_KILL_PROJECT="+project)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var trouble strings.Builder
	c.Stderr = &trouble
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var timer *time.Timer
	for lines.Scan() {
		if timer == nil {
			timer = time.AfterFunc(after, func() { _ = c.Process.Kill() })
			defer timer.Stop()
		}
		acts = append(acts, lines.Text())
	}
	var exit *exec.ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the child ended by itself: %v\n%s\n%s", err, strings.Join(acts[max(0, len(acts)-20):], "\n"), trouble.String())
	}
	return acts
}

// TestKillChild is the process that is killed.
func TestKillChild(t *testing.T) {
	data, project := os.Getenv("CLOISTER_KILL_DATA"), os.Getenv("CLOISTER_KILL_PROJECT")
	if data == "" {
		t.Skip("TestKillStorm runs it")
	}
	s, err := store.Open(data, project)
	if err != nil {
		t.Fatal(err)
	}
	for t.Context().Err() == nil {
		if err := stormAct(t, s, project); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
}

func stormAct(t *testing.T, s *store.Store, project string) error {
	act := []string{"write", "apply", "undo", "restore", "fork", "collect"}[rand.IntN(6)]
	fmt.Println(act)
	if act == "write" {
		return stormWrite(t, s, project)
	}
	if act == "collect" {
		_, err := s.Collect(false)
		return err
	}
	w, err := s.Lock("k")
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	switch act {
	case "apply":
		// Of a checkpoint: the upper may be of a session that was killed half way.
		whole := slices.DeleteFunc(slices.Clone(w.Checkpoints), func(c store.Checkpoint) bool { return c.Auto })
		if len(whole) == 0 {
			return nil
		}
		d, err := w.Diff(t.Context(), whole[rand.IntN(len(whole))].ID, nil)
		if err != nil {
			return err
		}
		_, err = w.Apply(d, "storm")
		return errors.Join(err, d.Close())
	case "undo":
		if _, err := w.Undo(1); !errors.Is(err, store.ErrNotFound) {
			return err
		}
	case "restore":
		if len(w.Checkpoints) > 0 {
			_, err := w.Restore(t.Context(), w.Checkpoints[rand.IntN(len(w.Checkpoints))].ID)
			return err
		}
	case "fork":
		name := fmt.Sprintf("x%d-%d", os.Getpid(), time.Now().UnixNano())
		if _, err := w.Fork(t.Context(), "", []string{name}, nil); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return s.Remove(name)
	}
	return nil
}

// stormWrite writes a whole new version as a session does, then checkpoints it.
func stormWrite(t *testing.T, s *store.Store, project string) error {
	use, err := s.Begin("k", project, "")
	if err != nil {
		return err
	}
	n := int(time.Now().UnixNano())
	up := filepath.Join(use.Mount.Store, use.Mount.Project.Upper)
	for i := range stormFiles {
		if err := replace(filepath.Join(up, stormFile(i)), stormText(n)); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(up, "even")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if n%2 == 0 {
		err = replace(filepath.Join(up, "even"), stormText(n))
	} else {
		err = unix.Mknod(filepath.Join(up, "even"), unix.S_IFCHR, 0)
	}
	if err := errors.Join(err, use.Close()); err != nil {
		return err
	}
	w, err := s.Lock("k")
	if err != nil {
		return err
	}
	fmt.Println("checkpoint")
	_, err = w.Save(t.Context(), strconv.Itoa(n), false, nil)
	return errors.Join(err, w.Close())
}

func replace(name, text string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644))
}

// stormCheck recovers as the next command does, and looks.
func stormCheck(data, project string) error {
	s, err := store.Open(data, project)
	if err != nil {
		return err
	}
	w, err := s.Lock("k")
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	entries, err := os.ReadDir(project)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".cloister") {
			return fmt.Errorf("%s is left in the project", e.Name())
		}
	}
	if text, err := os.ReadFile(filepath.Join(project, "mine")); err != nil || string(text) != "the person's" {
		return fmt.Errorf("the person's file: %q, %w", text, err)
	}
	if err := oneVersion([]string{project}, ""); err != nil {
		return fmt.Errorf("project: %w", err)
	}
	for _, c := range w.Checkpoints {
		var dirs []string
		for _, id := range c.Layers {
			dirs = append(dirs, filepath.Join(fsOf(data), id, "up"))
		}
		if c.Auto {
			continue // of a moment at which a session was half way
		}
		if err := oneVersion(dirs, c.Message); err != nil {
			return fmt.Errorf("checkpoint %s: %w", c.ID, err)
		}
		if err := w.Verify(c); err != nil {
			return err
		}
	}
	return nil
}

func fsOf(data string) string {
	found, _ := filepath.Glob(filepath.Join(data, "state", "fs*"))
	return slices.Max(found)
}

// oneVersion reads each file in the first folder that has it: all are of one version,
// and of that one if it is known. A file of even versions is absent in odd ones.
func oneVersion(dirs []string, want string) error {
	for i := range stormFiles {
		at := slices.IndexFunc(dirs, func(d string) bool { return lies(filepath.Join(d, stormFile(i))) })
		if at < 0 {
			return fmt.Errorf("%s is lost", stormFile(i))
		}
		text, err := os.ReadFile(filepath.Join(dirs[at], stormFile(i)))
		if err != nil {
			return err
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if want == "" {
			want = first
		}
		n, err := strconv.Atoi(want)
		if err != nil || string(text) != stormText(n) {
			return fmt.Errorf("%s is of version %q and has %d bytes; others are of %s", stormFile(i), first, len(text), want)
		}
	}
	n, _ := strconv.Atoi(want)
	text, err := os.ReadFile(filepath.Join(dirs[0], "even"))
	if n%2 == 0 && string(text) != stormText(n) || n%2 != 0 && err == nil && len(text) > 0 {
		return errors.Join(fmt.Errorf("even has %d bytes in version %d", len(text), n), err)
	}
	return nil
}

func lies(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
