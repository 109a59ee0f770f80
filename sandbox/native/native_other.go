//go:build !linux

package native

import (
	"context"

	"cloister/sandbox"
	"cloister/sandbox/apart"
)

// Driver says that this system has no parts to build an enclosure from.
type Driver struct{}

// New gives the driver.
func New(string) *Driver { return &Driver{} }

// OwnerName is the word by which the program is called for a process that owns a box.
const OwnerName = apart.Name

// Main has nothing to own.
func Main(context.Context, []string) int { return 2 }

// Name is "native".
func (*Driver) Name() string { return "native" }

func unsupported() *sandbox.Unsupported {
	return &sandbox.Unsupported{Guarantee: "namespaces", Reason: "start native: only Linux has them",
		Fix: "run cloister in a Linux machine"}
}

// Probe reports that nothing can be kept.
func (d *Driver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Driver: d.Name(), Guarantees: []sandbox.Guarantee{{
		Name: "enclosure", Level: sandbox.Absent, Needed: true, By: "namespaces", Evidence: "this system is not Linux",
		Fix: unsupported().Fix,
	}}}
}

// Start refuses.
func (*Driver) Start(context.Context, sandbox.Spec, sandbox.Wiring) (sandbox.Box, error) {
	return nil, unsupported()
}

// Exec refuses.
func (*Driver) Exec(context.Context, sandbox.Handle, sandbox.Spec, sandbox.Wiring) (sandbox.Box, error) {
	return nil, unsupported()
}

// Leftovers has nothing to look for.
func Leftovers(string, func(string) bool) error { return nil }
