//go:build !cloister_layeroff

package native

import "cloister/sandbox"

// without adds what stands in a layer's place and tells that it is off. None
// ever is here: layers_off_linux.go is for test builds alone.
func (p *program) without(layer, sandbox.Spec, detached) bool { return false }

// probed tells whether the containment probe looks at a layer. It always does.
func probed(layer) bool { return true }

// pretendedABI is the version of Landlock to go by, given the kernel's.
func pretendedABI(kernel int) int { return kernel }
