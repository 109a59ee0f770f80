package microvm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/microvm/kernel"
	"cloister/sandbox/microvm/monitor"
)

// Programs says what of the programs that a machine needs is not there.
func (d *Driver) Programs() error {
	_, _, err := d.programs()
	return err
}

// triedWithin bounds a guest that is booted with KVM for a trial: a second is much.
const triedWithin = 30 * time.Second

// Remove removes the kernel that is installed. Templates stay, if no other could change them: each is of one kernel and
// one program, and none of others.
func (d *Driver) Remove() error {
	err := d.templates().Clear()
	list, rerr := os.ReadDir(d.o.Kernel)
	if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	for _, e := range list {
		if at := filepath.Join(d.o.Kernel, e.Name()); at != d.templates().Dir {
			err = errors.Join(err, os.RemoveAll(at)) // a machine that runs has what it needs open
		}
	}
	return err
}

// Tried is what setup saw. Each is nil, or why it is not used.
type Tried struct{ KVM, Template error }

// Try starts a guest from a template that it makes, or boots one where that does not come off; with KVM, or else
// emulated. It writes down what could be done, and err is why no machine can be.
func (d *Driver) Try(ctx context.Context) (t Tried, err error) {
	k, err := kernel.Load(d.o.Kernel)
	if err != nil {
		return t, err
	}
	k.Accelerated, k.Templates = "", false
	if t.KVM = opens("/dev/kvm"); t.KVM == nil {
		within, stop := context.WithTimeout(ctx, triedWithin)
		t.Template, t.KVM = d.tried(within, true)
		if t.KVM != nil && within.Err() != nil {
			t.KVM = errors.New("a guest did not boot with it in " + triedWithin.String())
		}
		stop()
	}
	if t.KVM == nil {
		k.Accelerated = hostRelease()
	} else {
		t.Template, err = d.tried(ctx, false)
	}
	k.Templates = t.Template == nil && err == nil
	return t, errors.Join(k.Write(), err)
}

// tried starts a guest from a template, and else boots one.
func (d *Driver) tried(ctx context.Context, kvm bool) (template, err error) {
	if template = sandbox.Trial(ctx, &trial{d, kvm, d.made}); template == nil {
		return nil, nil
	}
	boot := func(context.Context, parts, monitor.Order) (*os.File, string, error) { return nil, "", nil }
	return template, sandbox.Trial(ctx, &trial{d, kvm, boot})
}

// trial starts a machine as it is said, whatever was seen before.
type trial struct {
	*Driver
	kvm   bool
	begin beginning
}

// Start is the driver's with the person's word, if it is needed.
func (t *trial) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	return t.start(ctx, s, w, t.kvm, t.begin)
}
