package metadata

import (
	"fmt"
	"slices"
	"strings"
)

// mounts are those of all entries; of several with one target the last stays.
func mounts(entries []Entry) any {
	var all []any
	for _, e := range entries {
		if list, ok := e["mounts"].([]any); ok {
			all = append(all, list...)
		}
	}
	seen := map[string]bool{}
	var out []any
	for _, m := range slices.Backward(all) {
		target := ReadMount(m)["target"]
		if !seen[target] {
			seen[target] = true
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.Reverse(out)
	return out
}

// ReadMount reads a mount, written as an object or as key=value pairs, under the
// names type, source, target; other keys keep theirs.
func ReadMount(m any) map[string]string {
	out := map[string]string{}
	if o, ok := m.(map[string]any); ok {
		for k, v := range o {
			out[mountKey(k)] = fmt.Sprint(v)
		}
		return out
	}
	text, _ := m.(string)
	for field := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.Trim(field, `"`), "=")
		out[mountKey(strings.TrimSpace(key))] = value
	}
	return out
}

func mountKey(k string) string {
	switch k {
	case "src":
		return "source"
	case "dst", "destination":
		return "target"
	}
	return k
}
