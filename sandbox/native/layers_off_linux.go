//go:build cloister_layeroff

package native

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// The environment of a build that tests what holds when a layer is missing:
// the layer to leave out, whether the containment probe looks at it all the
// same, and the version of Landlock to pretend.
const (
	envLayerOff   = "CLOISTER_LAYER_OFF"
	envLayerProbe = "CLOISTER_LAYER_PROBE"
	envLandlock   = "CLOISTER_LANDLOCK_ABI"
)

func probed(l layer) bool {
	return os.Getenv(envLayerOff) != string(l) || os.Getenv(envLayerProbe) != ""
}

func pretendedABI(kernel int) int {
	if n, err := strconv.Atoi(os.Getenv(envLandlock)); err == nil {
		return min(n, kernel)
	}
	return kernel
}

func off(l layer) bool { return os.Getenv(envLayerOff) == string(l) }

// hostView leaves the host's files where they are. The processes inside still
// are the only ones in /proc, and protected paths stay protected.
func (v *view) hostView(s sandbox.Spec) {
	p := v.p
	v.made = map[string]bool{"/": true, "/proc": true}
	p.sys("make mounts private", unix.SYS_MOUNT, "", "/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	p.sys("open root", unix.SYS_OPENAT, unix.AT_FDCWD, "/", unix.O_PATH|unix.O_CLOEXEC, 0).to(v.root)
	if v.lent == nil {
		v.proc(bounds(0))
	} else {
		v.proc(nil)
	}
	for _, b := range s.Binds {
		if string(b.Source) == string(b.Target) && !b.System {
			v.under = append(v.under, string(b.Target))
			v.bind(b)
		}
	}
	for i, t := range s.Protect {
		s.Protect[i].Empty, s.Protect[i].Instead = false, "" // nothing is made on the host's own root
		t.Empty, t.Instead = false, ""
		v.cover(t)
	}
	p.sys("go to /", unix.SYS_CHDIR, "/")
	p.sys("close root", unix.SYS_CLOSE, v.root)
}
