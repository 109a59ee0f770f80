package microvm

import (
	"context"
	"errors"
	"fmt"

	"cloister/sandbox"
)

// Probe looks for all that a machine is made of. It boots none: setup does, and keeps what it saw.
func (d *Driver) Probe(context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	p, err := d.parts()
	kvm := p.kernel.accelerated()
	machine := sandbox.Guarantee{Name: "a machine of its own", By: "KVM", Needed: true, Level: sandbox.Enforced,
		Evidence: fmt.Sprintf("a guest booted with %s, Linux %s (sha256:%.12s)", p.qemu, p.kernel.Release, p.kernel.Image)}
	if err == nil && !kvm {
		machine.By, err = "QEMU alone", emulated(p.kernel)
	}
	if err != nil {
		machine.Level, machine.Evidence, machine.Fix = sandbox.Absent, err.Error(), installing
		if u, ok := errors.AsType[*sandbox.Unsupported](err); ok {
			machine.Evidence, machine.Fix = u.Reason, u.Fix
		}
	}
	r.Guarantees = append(r.Guarantees, machine)
	for _, g := range []sandbox.Guarantee{
		{Name: "file view", By: "native's mounts, shown by virtiofsd within them", Evidence: "as native's"},
		{Name: "no way out but the gate", By: "no network device; a port to the monitor in native's network namespace",
			Evidence: "as native's"},
		{Name: "kernel surface", By: "system calls end in the guest's kernel; QEMU has native's filter and its own",
			Evidence: "as native's"},
	} {
		if g.Level = machine.Level; g.Level != sandbox.Enforced {
			g.Evidence = "not tried: " + machine.Evidence
		}
		r.Guarantees = append(r.Guarantees, g)
	}
	return r
}
