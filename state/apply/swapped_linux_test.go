package apply_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloister/state/apply"
	"cloister/state/layers"
)

// swapTime bounds the race, and swapped are the names for which links come.
const swapTime = 2 * time.Second

var swapped = []string{"d", "d/e", "d/e/changed", "d/e/gone", "d/e/mode", "top"}

// arena is a project, a layer of changes to it, and a folder outside with the same names.
type arena struct{ project, layer, outside, journals string }

// newArena lies in memory: what is raced is the kernel's names, not a disk.
func newArena(t *testing.T) *arena {
	t.Helper()
	top, err := os.MkdirTemp("/dev/shm", "swapped")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	a := &arena{top + "/project", top + "/layer", top + "/outside", top + "/journals"}
	for _, dir := range []string{a.project, a.outside} {
		for _, name := range []string{"d/e/changed", "d/e/gone", "d/e/folder/in", "d/e/mode", "d/beside", "top"} {
			put(t, dir, name, "old")
		}
	}
	for _, name := range []string{"d/e/changed", "d/e/new", "d/e/made/in", "d/beside", "top"} {
		put(t, a.layer, name, "changed")
	}
	put(t, a.layer, "d/e/mode", "old")
	var st unix.Stat_t
	err = errors.Join(unix.Stat(a.project+"/d/e/mode", &st),
		unix.UtimesNanoAt(unix.AT_FDCWD, a.layer+"/d/e/mode", []unix.Timespec{st.Mtim, st.Mtim}, 0),
		os.Chmod(a.layer+"/d/e/mode", 0o700), os.Symlink("changed", a.layer+"/d/e/link"),
		unix.Mknod(a.layer+"/d/e/gone", unix.S_IFCHR, 0), unix.Mknod(a.layer+"/d/e/folder", unix.S_IFCHR, 0))
	for _, name := range swapped {
		err = errors.Join(err, os.Symlink(filepath.Join(a.outside, name), a.beside(name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// beside is where the link to the same name outside waits.
func (a *arena) beside(name string) string { return filepath.Join(a.project, name) + ".out" }

// swap puts links in the place of one name and takes them away again, until it is stopped.
func (a *arena) swap(name string, r *rand.Rand, stop *atomic.Bool) {
	at, link := filepath.Join(a.project, name), a.beside(name)
	waste := func() {
		for range r.IntN(1<<r.IntN(12) + 1) {
			runtime.Gosched()
		}
	}
	exchange := func() error { return unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) }
	for !stop.Load() {
		waste()
		if exchange() == nil {
			waste()
			_ = exchange()
		}
	}
}

// swapping runs act while a name is swapped, and then puts the name back.
func (a *arena) swapping(name string, r *rand.Rand, act func()) error {
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() { a.swap(name, r, &stop) })
	act()
	stop.Store(true)
	group.Wait()
	at := filepath.Join(a.project, name)
	fi, err := os.Lstat(at)
	if err != nil || fi.Mode()&os.ModeSymlink == 0 {
		return nil
	}
	err = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, a.beside(name), unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) { // what the link stood for was new, and was taken back
		err = os.Rename(at, a.beside(name))
	}
	return err
}

// times are the change times below a folder, which the slightest touch moves on.
func times(t *testing.T, top string) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for name := range snapshot(t, top) {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(top, name), &st); err != nil {
			t.Fatal(err)
		}
		out[name] = st.Ctim.Nano()
	}
	return out
}

// round applies the layer, or takes it back, while a name is swapped. It reports whether that
// came off.
func (a *arena) round(t *testing.T, name string, r *rand.Rand, j *apply.Journal) *apply.Journal {
	t.Helper()
	var steps []apply.Step
	if j == nil {
		s, err := layers.Open(a.project, []string{a.layer})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		list, err := s.Changes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		steps = stepsOf(t, s, list)
	}
	var made *apply.Journal
	var err error
	back := a.swapping(name, r, func() {
		if j != nil {
			made, err = j.Undo(a.journals)
		} else {
			made, err = apply.Start(a.journals, a.project, "", steps)
		}
	})
	if back != nil {
		t.Fatalf("%s cannot be put back: %v", name, back)
	}
	if _, _, rerr := apply.Recover(a.journals, a.project); rerr != nil {
		t.Fatalf("recover after %v: %v", err, rerr)
	}
	return made
}

// Whoever edits the project may put links to other places where an apply goes, at any moment
// of it: nothing is touched there, and what was swapped and put back is of one version.
// CLOISTER_SWAPS chooses how many rounds, instead of some seconds.
func TestSwappedForLinks(t *testing.T) {
	most, end := 2000, time.Now().Add(swapTime)
	if text := os.Getenv("CLOISTER_SWAPS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		most, end = n, time.Now().Add(24*time.Hour)
	}
	a, seed := newArena(t), rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	outside, old := times(t, a.outside), snapshot(t, a.project)
	var applied map[string]string
	var j *apply.Journal
	rounds, came := 0, 0
	for ; rounds < most && (rounds < 4 || time.Now().Before(end)); rounds++ {
		name, was := swapped[r.IntN(len(swapped))], old
		if j != nil {
			was = applied
		}
		made := a.round(t, name, r, j)
		now := snapshot(t, a.project)
		switch {
		case made == nil && !maps.Equal(now, was):
			t.Fatalf("round %d, %s: what was not made has changed the project:\n%s", rounds, name, cmp.Diff(was, now))
		case made != nil && j == nil && applied == nil:
			applied = now
		case made != nil && j == nil && !maps.Equal(now, applied):
			t.Fatalf("round %d, %s: another apply made another project:\n%s", rounds, name, cmp.Diff(applied, now))
		case made != nil && j != nil && !maps.Equal(now, old):
			t.Fatalf("round %d, %s: an undo left\n%s", rounds, name, cmp.Diff(old, now))
		}
		if made == nil {
			continue
		}
		came++
		if j = made; made.Undoes != "" {
			j = nil
		}
	}
	t.Logf("%d of %d came off", came, rounds)
	if diff := cmp.Diff(outside, times(t, a.outside)); diff != "" {
		t.Errorf("touched outside:\n%s", diff)
	}
	a.control(t, r)
}

// control shows that a program that goes by paths does write outside.
func (a *arena) control(t *testing.T, r *rand.Rand) {
	before := times(t, a.outside)
	err := a.swapping("d", r, func() {
		for range 100_000 {
			_ = os.WriteFile(a.project+"/d/e/changed", []byte("by a path"), 0o600)
			if text, err := os.ReadFile(a.outside + "/d/e/changed"); err != nil || string(text) != "old" {
				return
			}
		}
	})
	if err != nil || maps.Equal(before, times(t, a.outside)) {
		t.Errorf("the control wrote nothing outside: %v", err)
	}
}
