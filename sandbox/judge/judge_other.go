//go:build !linux

package judge

import (
	"context"
	"io"

	"cloister/sandbox"
)

// Kernel is a kernel that judges.
type Kernel struct{}

// Judge is that of one box.
type Judge struct{ io.Closer }

// Available says why the kernel judges nothing for this process.
func Available() error {
	return &sandbox.Unsupported{Guarantee: "files and programs judged by the kernel", Reason: "this is no Linux"}
}

// Kept says the same.
func Kept(string) error { return Available() }

// Load says the same.
func Load() (*Kernel, error) { return nil, Available() }

// AvailableToEngine says the same.
func AvailableToEngine() error { return Available() }

// LoadForEngine says the same.
func LoadForEngine() (*Kernel, error) { return Load() }

// Close does nothing.
func (*Kernel) Close() error { return nil }

// Apply says the same.
func (*Judge) Apply(sandbox.Spec) error { return Available() }

// Begin says the same as Load.
func (*Kernel) Begin(
	context.Context, string, int, sandbox.Spec, func(sandbox.FileEvent), func(error),
) (*Judge, error) {
	return nil, Available()
}
