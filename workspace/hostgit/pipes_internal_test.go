package hostgit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Names before it, which an agent can make too, do not hide a pipe.
func TestPipeBehindManyNames(t *testing.T) {
	dir := t.TempDir()
	for n := range 8 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := noPipe(dir, false, 10); err != nil {
		t.Fatalf("control: %v", err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "shallow"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := noPipe(dir, false, 10); !errors.As(err, new(*Pipe)) {
		t.Errorf("%v, want the pipe", err)
	}
	if err := noPipe(dir, false, 5); !errors.As(err, new(*TooMany)) {
		t.Errorf("%v, want a refusal", err)
	}
}
