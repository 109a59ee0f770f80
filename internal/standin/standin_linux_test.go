package standin_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/standin"
)

// Whoever is inside and holds a lease of the file makes that it is not filled, and has nobody wait.
func TestLeased(t *testing.T) {
	s, err := standin.New(t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = s.Release() }()
	name, err := s.Add()
	if err != nil {
		t.Fatal(err)
	}
	file, from := filepath.Join(s.Shown(), name), filepath.Join(t.TempDir(), "from")
	if err := os.WriteFile(from, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	sum, err := standin.Digest(program)
	if err != nil {
		t.Fatal(err)
	}
	leased, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer leased.Close()
	signal.Ignore(syscall.SIGIO)
	defer signal.Reset(syscall.SIGIO)
	if _, err := unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- standin.Fill(file, program, sum) }()
	select {
	case err := <-ended:
		if err == nil || standin.Filled(file) {
			t.Errorf("it was filled: %v", err)
		}
	case <-time.After(30 * time.Second): // the kernel itself takes a lease away after 45 s
		t.Error("it waits for the lease, with all forks of this process")
		_, _ = unix.FcntlInt(leased.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		<-ended
	}
	_ = leased.Close()
	if err := standin.Fill(file, program, sum); err != nil || !standin.Filled(file) {
		t.Errorf("without a lease: %v", err)
	}
}
