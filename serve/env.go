package serve

import (
	"maps"
	"slices"
	"strings"
)

// withEnv is an environment with some variables set.
func withEnv(base []string, with map[string]string) []string {
	out := slices.DeleteFunc(slices.Clone(base), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		_, set := with[name]
		return set
	})
	for _, name := range slices.Sorted(maps.Keys(with)) {
		out = append(out, name+"="+with[name])
	}
	return out
}
