package refused_test

import (
	"context"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/egress/internal/refused"
)

// TestRelayed reads what another host's kernel told, by a socket that is not netlink's.
func TestRelayed(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs, own := os.NewFile(uintptr(fds[0]), "theirs"), os.NewFile(uintptr(fds[1]), "own")
	defer own.Close()
	s, err := refused.Open(theirs)
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := own.Write([]byte("told")); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if text, ok := s.Next(); !ok || string(text) != "told" {
		t.Errorf("%q, %v", text, ok)
	}
	if _, err := s.Lost(); err != nil {
		t.Error(err)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := s.Wait(ctx, time.Now().Add(time.Minute)); err != nil {
		t.Error(err)
	}
	if text, ok := s.Next(); ok {
		t.Errorf("%q, which nobody told", text)
	}
}
