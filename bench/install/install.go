// Package install installs a peer that the bench compares with.
//
// It runs one command of a package manager, or of Go, and lets no package start a service. What
// is installed, and whether it may be, is its caller's matter. Most readers want [Run].
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Run runs the command, at most a quarter of an hour, with more of an environment.
func Run(ctx context.Context, words, env []string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	// No service of a package may start by its installation.
	const policy = "/usr/sbin/policy-rc.d"
	if _, err := os.Stat(policy); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err == nil { // dpkg executes it
			defer func() { _ = os.Remove(policy) }()
		}
	}
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = append(append(os.Environ(), "DEBIAN_FRONTEND=noninteractive"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return nil
}
