//go:build !linux

package heldpath

// Watch sees nothing: no cloister runs here.
func (*Words) Watch() (stop func()) { return func() {} }
