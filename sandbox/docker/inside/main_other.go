//go:build !linux

package inside

// Main has nothing to be where there are no containers of this kind.
func Main([]string) int { return 125 }
