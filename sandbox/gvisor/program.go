package gvisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/sandbox"
)

// The kernel's program, and the first process of a cloister, which lies beside it.
const (
	ProgramName = "cloister-gvisor"
	FirstName   = "cloister-gvisor-first"
)

// Pin is the version of gVisor that the driver was written for. Another one has other
// flags and other faults.
const Pin = "v0.0.0-20260905035102-160fafc42237"

// Protocol is what driver and program say to each other, as kernel/main.go has it.
const Protocol = "4"

// flags are runsc's, the same for every command: what its parts may do hangs on them, so its
// filters of system calls are compiled for them (kernel/filters.go).
var flags = []string{
	"--network=host", "--ignore-cgroups", "--platform=systrap", "--directfs=false", "--overlay2=none",
	"--file-access=shared", "--file-access-mounts=shared", "--dcache=0", "--host-uds=create", "--host-fifo=open",
	"--host-settings=ignore", "--restore-spec-validation=ignore",
}

// installing is the way to get what is missing.
const installing = "cloister setup gvisor"

// find looks for the kernel's program in the folders, the first that has it.
func find(folders []string) (string, error) {
	for _, dir := range folders {
		at := filepath.Join(dir, ProgramName)
		_, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) || dir == "" {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("start gvisor: %w", err)
		}
		return at, usable(at)
	}
	return "", lacking("the program " + ProgramName + " is not installed")
}

// usable refuses what could not be run by the payload's user, which has no right on it
// but everybody's.
func usable(at string) error {
	for _, file := range []string{at, filepath.Join(filepath.Dir(at), FirstName)} {
		fi, err := os.Stat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return lacking("there is no " + file + ", which belongs to " + at)
		case err != nil:
			return fmt.Errorf("start gvisor: %w", err)
		case !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0:
			return lacking(file + " is no program that can be executed")
		}
	}
	return nil
}

func lacking(reason string) error {
	return &sandbox.Unsupported{Guarantee: "gVisor", Reason: reason, Fix: installing}
}
