package git

import (
	"errors"
	"os/exec"
	"testing"
)

// What a git says beyond the bound is never shown in part.
func TestTooMuchIsNothing(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sh", "-c", "echo first; head -c 17000000 /dev/zero; echo last")
	if said, err := run(c); !errors.Is(err, errSaid) || said != "" {
		t.Errorf("%d bytes, %v", len(said), err)
	}
	if said, err := run(exec.CommandContext(t.Context(), "sh", "-c", "echo all")); err != nil || said != "all\n" {
		t.Errorf("control: %q, %v", said, err)
	}
	var b capped
	for _, n := range []int{1, mostSaid, 1} {
		if _, err := b.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if !b.over || b.String() != "" {
		t.Errorf("%d bytes left of too many", len(b.String()))
	}
}
