package microvm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"cloister/sandbox"
	"cloister/sandbox/microvm/monitor"
	"cloister/sandbox/microvm/template"
	"cloister/sandbox/microvm/wire"
	"cloister/sandbox/native"
)

// templates are those of this kernel.
func (d *Driver) templates() template.Store {
	return template.Store{Dir: filepath.Join(d.o.Kernel, "templates")}
}

// shape names what all machines that may begin from one template have in common: kernel, initrd with this program,
// QEMU, and how it is called.
func shape(p parts, o monitor.Order) (string, error) {
	fi, err := os.Stat(p.qemu)
	if err != nil {
		return "", fmt.Errorf("start microvm: %w", err)
	}
	what := []string{wire.Protocol, p.kernel.Image, filepath.Base(p.initrd),
		strconv.FormatInt(fi.Size(), 10), strconv.FormatInt(fi.ModTime().UnixNano(), 10)}
	if o.KVM { // a guest's kernel chose by this processor and its microcode what it is guarded by
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return "", fmt.Errorf("start microvm: %w", err)
		}
		what = append(what, hostRelease(), string(boot))
	}
	text, err := json.Marshal(append(what, o.Words()...))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// template opens the template that a machine begins from and gives its digest. The first start of a shape makes it.
// Where it cannot be made, the machine boots: a template is speed, and no wall. One that is there and is not what it
// should be ends the start.
func (d *Driver) template(ctx context.Context, p parts, o monitor.Order) (*os.File, string, error) {
	if !p.kernel.Templates {
		return nil, "", nil
	}
	name, err := shape(p, o)
	if err != nil {
		return nil, "", err
	}
	f, digest, err := d.templates().Open(name)
	if errors.Is(err, template.ErrNone) {
		if f, digest, err = d.made(ctx, p, o); err != nil {
			return nil, "", ctx.Err()
		}
	}
	if err != nil {
		return nil, "", lacking("the template of this machine: "+err.Error(), installing+" makes another")
	}
	return f, digest, nil
}

// made makes the template of a shape and opens it, whatever there is.
func (d *Driver) made(ctx context.Context, p parts, o monitor.Order) (*os.File, string, error) {
	name, err := shape(p, o)
	if err != nil {
		return nil, "", err
	}
	if err := d.templates().Make(name, func(to *os.File) error { return d.keep(ctx, p, o, to) }); err != nil {
		return nil, "", err
	}
	return d.templates().Open(name)
}

// keep boots a machine in an enclosure of its own, with nothing of a session, and has it written to a file.
func (d *Driver) keep(ctx context.Context, p parts, o monitor.Order, to *os.File) error {
	bare := monitor.Order{QEMU: o.QEMU, Memory: o.Memory, CPUs: o.CPUs, KVM: o.KVM, Code: o.Code,
		State: o.State, Boot: o.Boot}
	return sandbox.Trial(ctx, &keeper{d, p, bare, to})
}

// keeper starts machines that become a template.
type keeper struct {
	*Driver
	p  parts
	o  monitor.Order
	to *os.File
}

// Start is the driver's, of which the command is that the machine has been kept.
func (k *keeper) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	h, err := hosted(k.p, k.o)
	if err != nil {
		return nil, err
	}
	h.Pass = []*os.File{k.to}
	return k.attach(ctx, s, w, h, monitor.RoleKeep, func(w sandbox.Wiring, h native.Hosted) (sandbox.Box, error) {
		return k.native.StartHosted(ctx, s, w, h)
	})
}
