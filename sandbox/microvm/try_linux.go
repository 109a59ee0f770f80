package microvm

import (
	"context"
	"errors"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/microvm/kernel"
)

// Programs says what of the programs that a machine needs is not there.
func (d *Driver) Programs() error {
	_, _, err := d.programs()
	return err
}

// triedWithin bounds a guest that is booted with KVM for a trial: a second is much.
const triedWithin = 30 * time.Second

// Try boots a guest with KVM and writes down whether it could, or else boots an emulated one.
// kvm is why KVM is not used, err why no machine can be.
func (d *Driver) Try(ctx context.Context) (kvm, err error) {
	k, err := kernel.Load(d.o.Kernel)
	if err != nil {
		return nil, err
	}
	k.Accelerated = ""
	if kvm = opens("/dev/kvm"); kvm == nil {
		within, stop := context.WithTimeout(ctx, triedWithin)
		kvm = sandbox.Trial(within, &trial{Driver: d, kvm: true})
		if kvm != nil && within.Err() != nil {
			kvm = errors.New("a guest did not boot with it in " + triedWithin.String())
		}
		stop()
	}
	if kvm == nil {
		k.Accelerated = hostRelease()
		return nil, k.Write()
	}
	return kvm, errors.Join(k.Write(), sandbox.Trial(ctx, &trial{Driver: d}))
}

// trial starts a machine as it is said, whatever was seen before.
type trial struct {
	*Driver
	kvm bool
}

// Start is the driver's with the person's word, if it is needed.
func (t *trial) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	return t.start(ctx, s, w, t.kvm)
}
