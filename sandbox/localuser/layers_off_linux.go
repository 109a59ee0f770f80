//go:build cloister_layeroff

package localuser

import (
	"bytes"
	"os"
	"strconv"
)

// ownerEnv is what of the caller's environment the process of a box has, in a build that
// tests what holds when a layer is missing: which one (sandbox/native/layers_off_linux.go).
func ownerEnv(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return []string{}
	}
	out := []string{}
	for word := range bytes.SplitSeq(text, []byte{0}) {
		if bytes.HasPrefix(word, []byte("CLOISTER_LAYER_")) || bytes.HasPrefix(word, []byte("CLOISTER_LANDLOCK_ABI=")) {
			out = append(out, string(word))
		}
	}
	return out
}
