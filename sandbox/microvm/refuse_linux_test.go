package microvm_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/microvm"
)

// incomplete is a driver whose programs are there, as far as looking tells, and no kernel.
func incomplete(t *testing.T) *microvm.Driver {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	return microvm.New(microvm.Options{Instance: dir, Kernel: filepath.Join(dir, "kernel"), Program: "/bin/true", Path: []string{dir}})
}

// TestRefusals has every start refused whose promise cannot be kept, with what would fix it.
func TestRefusals(t *testing.T) {
	d := incomplete(t)
	_, err := d.Start(t.Context(), sandbox.Spec{Argv: []string{"true"}}, sandbox.Wiring{})
	if u, ok := errors.AsType[*sandbox.Unsupported](err); !ok || u.Fix != "cloister setup microvm" || u.Residue != "" {
		t.Errorf("without a kernel: %v", err)
	}
	for name, s := range map[string]sandbox.Spec{
		"devices":                     {Argv: []string{"true"}, Devices: []string{"kvm"}},
		"exact arguments":             {Argv: []string{"true", "\xff"}},
		"lists of files and programs": {Argv: []string{"true"}, Permits: sandbox.Permits{Opens: true}},
	} {
		_, err := d.Exec(t.Context(), "1", s, sandbox.Wiring{})
		if u, ok := errors.AsType[*sandbox.Unsupported](err); !ok || u.Guarantee != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := d.Probe(t.Context())
	if !strings.HasPrefix(r.Reason(), "a machine of its own: ") {
		t.Errorf("doctor says %q", r.Reason())
	}
}

// TestMachineNeedsAWord starts no emulated machine without a person's word.
func TestMachineNeedsAWord(t *testing.T) {
	d := built(t)().(accepting).Driver
	_, err := d.Start(t.Context(), sandbox.Spec{Argv: []string{"true"}}, sandbox.Wiring{})
	if u, ok := errors.AsType[*sandbox.Unsupported](err); !ok || u.Residue != microvm.Residue {
		t.Errorf("%v", err)
	}
	_, err = d.Start(t.Context(), sandbox.Spec{Argv: []string{"true"}, Accepted: []string{microvm.Residue},
		Limits: sandbox.Limits{Memory: 100 << 20}}, sandbox.Wiring{})
	if u, ok := errors.AsType[*sandbox.Unsupported](err); !ok || u.Guarantee != "the limit of memory" {
		t.Errorf("%v", err)
	}
}
