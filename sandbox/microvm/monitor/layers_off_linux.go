//go:build cloister_layeroff

package monitor

import (
	"os"

	"golang.org/x/sys/unix"
)

// Layers are those that an order leaves out, in a build that tests what holds when a layer is
// missing.
type Layers struct {
	Off string `json:"off"`
}

// LeftOut is the one that the environment names.
func LeftOut() Layers { return Layers{Off: os.Getenv("CLOISTER_LAYER_OFF")} }

func (l Layers) off(name layer) bool { return l.Off == string(name) }

// groupsOnly is virtiofsd's filter without what it says of modes: it would not start without the
// rest.
func groupsOnly() []unix.SockFilter {
	const nr = 0 // of seccomp_data
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_GETGROUPS, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SETGROUPS, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
}
