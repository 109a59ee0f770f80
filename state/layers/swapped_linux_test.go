package layers_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// What a name has is of one entry, whatever comes in its place between two looks: a link has its own target, and
// what is no link none.
func TestStatOfOneEntry(t *testing.T) {
	top := t.TempDir()
	at := func(name string) string { return filepath.Join(top, name) }
	err := errors.Join(os.Symlink("elsewhere", at("link")), os.WriteFile(at("file"), nil, 0o600))
	dir, derr := layers.OpenFolder(top)
	if err := errors.Join(err, derr); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	var stop atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, at("link"), unix.AT_FDCWD, at("file"), unix.RENAME_EXCHANGE)
		}
	})
	defer group.Wait()
	defer stop.Store(true)
	seen := map[layers.Kind]int{}
	for i := 0; i < 20_000 || seen[layers.Link] == 0 || seen[layers.File] == 0; i++ {
		n, err := dir.Stat("link")
		if err != nil || (n.Kind == layers.Link) != (n.Target == "elsewhere") {
			t.Fatalf("look %d: %+v, %v", i, n, err)
		}
		seen[n.Kind]++
	}
}
