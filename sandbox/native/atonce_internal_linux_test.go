package native

import (
	"os"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/sandboxtest"
)

// TestSpacesAtOnce: user namespaces that are made at the same time do not wait for each other. What
// holds one had a copy of the pipe that ends another (they waited forever).
func TestSpacesAtOnce(t *testing.T) {
	// A box that this process had before hid the memory that the holders share.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 12 {
				s, err := newIDSpace(os.Geteuid(), os.Getegid(), os.Geteuid())
				switch {
				case err == nil:
					s.close()
				case os.Geteuid() == 0: // an ordinary user may map no group, and is told so at once too
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestBoxesAtOnce starts eight boxes at the same time. An ordinary user's process has one (package
// apart): the memory of all is hidden at once, and their ids can be mapped no more.
func TestBoxesAtOnce(t *testing.T) {
	boxes := 8
	if os.Geteuid() != 0 {
		boxes = 1
	}
	all := make([]*sandboxtest.Harness, boxes)
	for i := range all {
		all[i] = sandboxtest.New(t, New("test-"+strconv.Itoa(i)))
	}
	var over sync.WaitGroup
	for i, h := range all {
		over.Go(func() {
			out := h.Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { s.Network = false }}, "echo", strconv.Itoa(i))
			if out.Err != nil || out.Stdout != strconv.Itoa(i)+"\n" {
				t.Errorf("box %d: %+v", i, out)
			}
		})
	}
	over.Wait()
}
