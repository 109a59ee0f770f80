package feed_test

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"cloister/sandbox/kubernetes/feed"
)

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestFeed: a program reads the first bytes, then the caller's to their end, however many there are.
func TestFeed(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000)
	for name, in := range map[string]string{"none": "", "short": "typed\n", "long": long} {
		r, w := pipe(t)
		go func() {
			_, _ = io.WriteString(w, in)
			w.Close()
		}()
		f, err := feed.New([]byte("first\n"+long), r)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := cat(t, f); err != nil || out != "first\n"+long+in {
			t.Errorf("%s: %d bytes came, %v", name, len(out), err)
		}
		f.End()
		f.End()
	}
}

// TestFeedEnds: what comes when the program has ended is left to the caller, whether or not it ever began.
func TestFeedEnds(t *testing.T) {
	for _, begins := range []bool{true, false} {
		r, w := pipe(t)
		f, err := feed.New([]byte("first"), r)
		if err != nil {
			t.Fatal(err)
		}
		if begins {
			cmd := exec.CommandContext(t.Context(), "true")
			cmd.Stdin = f.Input()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			f.Begin()
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		f.End()
		if _, err := io.WriteString(w, "later"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 9)
		if n, err := r.Read(buf); err != nil || string(buf[:n]) != "later" {
			t.Errorf("begun %v: the caller has %q, %v", begins, buf[:n], err)
		}
	}
}

// cat is what a program reads that a feed is begun for.
func cat(t *testing.T, f *feed.Feed) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.Stdin, cmd.Stdout = f.Input(), &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f.Begin()
	err := cmd.Wait()
	return out.String(), err
}

// TestNoInput: without the caller's there are the first bytes alone.
func TestNoInput(t *testing.T) {
	f, err := feed.New([]byte("first"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cat(t, f); err != nil || out != "first" {
		t.Errorf("%q, %v", out, err)
	}
	f.End()
}
