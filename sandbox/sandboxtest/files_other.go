//go:build !linux

package sandboxtest

import "testing"

func files(t *testing.T, _ *Harness)    { t.Skip("how files come out is looked at on Linux") }
func traced(t *testing.T, _ *Harness)   { t.Skip("ptrace is looked at on Linux") }
func stopped(t *testing.T, _ *Harness)  { t.Skip("ptrace is looked at on Linux") }
func named(t *testing.T, _ *Harness)    { t.Skip("memory files are Linux's") }
func otherMachine(*testing.T, *Harness) {}
func watched(t *testing.T, _ *Harness)  { t.Skip("inotify is Linux's") }

func keptMemory(t *testing.T, _ *Harness) { t.Skip("a kept memory is looked at on Linux") }
