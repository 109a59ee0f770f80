package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// PSS is the proportional set size of a process in bytes: what it alone holds,
// with its share of what it shares.
func PSS(pid int) (float64, error) {
	text := Field("/proc/"+strconv.Itoa(pid)+"/smaps_rollup", "Pss")
	kib, err := strconv.ParseFloat(strings.TrimSuffix(text, " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("memory of %d: %w", pid, err)
	}
	return kib * 1024, nil
}

// Children lists a process and everything below it.
func Children(pid int) []int {
	out := []int{pid}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return out
	}
	for _, l := range lists {
		text, err := os.ReadFile(l)
		if err != nil {
			continue // a thread that ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(word); err == nil {
				out = append(out, Children(id)...)
			}
		}
	}
	return out
}
