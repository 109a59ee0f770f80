//go:build cloister_layeroff

package gvisor

import (
	"os"

	"golang.org/x/sys/unix"
)

// commandFilter is the filter that a command has on the kernel. In this build, which tests what
// holds when a layer is missing, it is one that lets all pass where the environment says so: the
// other layers of the level are native's (sandbox/native/layers_off_linux.go).
func commandFilter(whole []unix.SockFilter) []unix.SockFilter {
	if os.Getenv("CLOISTER_LAYER_OFF") != "seccomp" {
		return whole
	}
	return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
}
