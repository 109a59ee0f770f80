package workspace

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"cloister/internal/realpath"
)

// unescape undoes how mountinfo writes what would end a field (proc(5)).
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsIn are the places below some folders on which something is mounted. What lies there
// has another name elsewhere, as where a folder is bound to a second place.
func mountsIn(folders []string) ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look for mounts in the project: %w", err)
	}
	var out []string
	for row := range strings.Lines(string(text)) {
		fields := strings.Fields(row)
		if len(fields) < 5 {
			continue
		}
		at := unescape.Replace(fields[4])
		in := func(dir string) bool { return at != dir && realpath.Inside(at, dir) }
		if slices.ContainsFunc(folders, in) && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out, nil
}
