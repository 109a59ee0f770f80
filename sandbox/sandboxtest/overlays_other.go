//go:build !linux

package sandboxtest

import "testing"

func overlays(t *testing.T, _ *Harness) { t.Skip("no overlays here") }
