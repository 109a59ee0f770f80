//go:build !linux

package hostexec

import (
	"context"
	"errors"
	"os/exec"
)

var errLinux = errors.New("host commands need Linux: folders and files are held by openat2(2)")

// Prepared is a command that was looked at.
type Prepared struct{ Command }

// Prepare looks at a request; on this system it cannot.
func Prepare(Request, Host) (*Prepared, error) { return nil, errLinux }

// Close lets go of what is held.
func (*Prepared) Close() {}

// Again looks at everything once more; on this system it cannot.
func (*Prepared) Again() (*Prepared, error) { return nil, errLinux }

// Run runs what was prepared; on this system it cannot.
func (*Prepared) Run(context.Context, Way, *Conn) (Result, error) { return Result{}, errLinux }

// Keep is the helper's life; there is none on this system.
func Keep() error { return errLinux }

func machineMemory() (int64, error) { return 0, errLinux }

// A Leash holds a program of the host; on this system it cannot.
type Leash struct{}

// Under is a command as the helper runs it; there is none on this system.
func Under(context.Context, []string, *exec.Cmd) (*exec.Cmd, *Leash, error) {
	return nil, nil, errLinux
}

// Started hands the program over.
func (*Leash) Started() error { return errLinux }

// End ends it.
func (*Leash) End() {}

// Close lets go.
func (*Leash) Close() error { return errLinux }
