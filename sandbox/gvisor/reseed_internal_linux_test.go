package gvisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// unmarked goes on from an image in a box whose kernel does not know that it does: no generator is told.
type unmarked struct{ *Driver }

func (u unmarked) RestoreMemory(
	ctx context.Context, s sandbox.Spec, w sandbox.Wiring, i *sandbox.Image,
) (sandbox.Box, error) {
	return u.goOn(ctx, s, w, i, func(w sandbox.Wiring, h native.Hosted, m machine, wired wiring) (sandbox.Box, error) {
		text, err := encoded(specification(s, m, wired))
		if err != nil {
			return nil, fmt.Errorf("start gvisor: %w", err)
		}
		h.Files = []sandbox.File{{Path: "/bundle/config.json", Data: text, Mode: 0o444}}
		return u.native.StartHosted(ctx, s, w, h)
	})
}

// TestReseedIsWhatDiffers is the control of what is said of random values: without the mark OpenSSL draws the
// same bytes in parent and child, and with it others.
func TestReseedIsWhatDiffers(t *testing.T) {
	dir := os.Getenv("CLOISTER_GVISOR")
	if dir == "" {
		t.Skip("CLOISTER_GVISOR names no folder with " + ProgramName + ": script/test gvisor builds it")
	}
	d := New(Options{Instance: filepath.Join(t.TempDir(), "instance"), Folders: []string{dir}})
	for _, c := range []struct {
		what   string
		driver sandbox.Driver
		same   bool
	}{{"reseeded", d, false}, {"control: not reseeded", unmarked{d}, true}} {
		t.Run(c.what, func(t *testing.T) {
			parent, child := sandboxtest.GoOn(t, sandboxtest.New(t, c.driver), false)
			if (parent.OpenSSL == child.OpenSSL) != c.same {
				t.Errorf("OpenSSL drew %s and %s", parent.OpenSSL, child.OpenSSL)
			}
			if parent.Kernel == child.Kernel {
				t.Errorf("the kernel drew %s twice", child.Kernel)
			}
		})
	}
}
