//go:build !linux

package pod

import "context"

// Main needs Linux, as every node is.
func Main(context.Context, []string, func(string) string) int { return 125 }
