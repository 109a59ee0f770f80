package store_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/state/patch"
	"cloister/state/store"
)

const manyAct = "CLOISTER_TEST_MANY"

// What an act on a workspace costs grows with what was changed, by no more than so much for each
// file: 10,000 in each run, a million with CLOISTER_TEST_LONG=1. Each act is a process of its own, as a
// command is, whose kernel says what it took; an upper of one file is what it takes by itself.
func TestManyChanges(t *testing.T) {
	if act := os.Getenv(manyAct); act != "" {
		words := strings.Fields(act)
		if err := manyOnce(t, words[0], words[1], words[2]); err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(status))
		return
	}
	const (
		mostBytes = 2 << 10
		mostTime  = 400 * time.Microsecond // of processors; a tenth of it where nothing else runs
	)
	n := 10_000
	if raceEnabled { // which takes ten times as long, and whose memory says nothing
		n = 2_000
	}
	if os.Getenv("CLOISTER_TEST_LONG") != "" {
		n = 1_000_000
	}
	one, many := newWorld(t), newWorld(t)
	one.session("k", func(up string) { manyFiles(t, up, 1) })
	many.session("k", func(up string) { manyFiles(t, up, n) })
	for _, act := range []string{"names", "stat", "checkpoint", "apply", "undo", "collect"} {
		base, _ := one.cost(act)
		size, took := many.cost(act)
		each := took / time.Duration(n)
		t.Logf("%d files, %s: %d MiB, %d bytes for each; %v of processors, %v for each",
			n, act, size>>20, (size-base)/int64(n), took.Round(time.Millisecond), each)
		if size-base > int64(n)*mostBytes && !raceEnabled {
			t.Errorf("%s of %d files takes %d MiB more than of one", act, n, (size-base)>>20)
		}
		if each > mostTime && !raceEnabled {
			t.Errorf("%s of %d files takes %v", act, n, took)
		}
	}
}

// manyFiles fills an upper with files, a thousand in a folder.
func manyFiles(t *testing.T, up string, n int) {
	t.Helper()
	for i := range n {
		dir := filepath.Join(up, "many", strconv.Itoa(i/1000))
		if i%1000 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i%1000)), []byte(strconv.Itoa(i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// cost runs an act in a process of its own, and gives the most memory that it had, and its time on
// processors.
func (w *world) cost(act string) (bytes int64, took time.Duration) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), os.Args[0], "-test.run=^TestManyChanges$")
	cmd.Env = append(os.Environ(), manyAct+"="+act+" "+w.data+" "+w.project)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("%s: %v\n%s", act, err, out)
	}
	_, most, _ := strings.Cut(string(out), "VmHWM:")
	if _, err := fmt.Sscan(most, &bytes); err != nil {
		w.Fatalf("%s says of its memory %q", act, out)
	}
	return bytes << 10, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

func manyOnce(t *testing.T, act, data, project string) error {
	s, err := store.Open(data, project)
	if err != nil {
		return err
	}
	if act == "collect" {
		_, err := s.Collect(false)
		return err
	}
	w, err := s.Lock("k")
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	switch act {
	case "checkpoint":
		_, err = w.Save(t.Context(), "all", false, nil)
		return err
	case "undo":
		_, err = w.Undo(1)
		return err
	}
	var paths []string
	if act == "apply" {
		paths = []string{"many/0/0"}
	}
	d, err := w.Diff(t.Context(), "", paths)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	switch act {
	case "apply":
		if _, err := w.Apply(d, "one"); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(project, "many/0/0"))
		if err == nil && string(text) != "0" {
			err = fmt.Errorf("the project has %q", text)
		}
		return err
	case "stat":
		for _, c := range d.Changes {
			if _, _, _, err := patch.Count(d.Stack, c); err != nil {
				return err
			}
		}
	}
	return nil
}
