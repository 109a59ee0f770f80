package microvm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/microvm/kernel"
)

// parts are what a machine is made of.
type parts struct {
	program, qemu, server string
	kernel                installed
	initrd                string
}

// installed is the kernel of guests.
type installed struct{ kernel.Installed }

// serverFolders are where distributions put the server of virtiofs, which is on no PATH.
var serverFolders = []string{"/usr/lib/qemu", "/usr/libexec"}

// names of the programs.
const serverName = "virtiofsd"

const qemuName = "qemu-system-x86_64"

// installing is the way to get what is missing.
const installing = "cloister setup microvm"

func lacking(reason, fix string) error {
	if fix == "" {
		fix = installing
	}
	return &sandbox.Unsupported{Guarantee: "a machine of its own", Reason: reason, Fix: fix}
}

// emulated says why a start needs a person's word.
func emulated(k installed) error {
	why := "KVM has booted no guest on this host's kernel"
	if unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		why = "/dev/kvm cannot be opened"
	} else if k.Accelerated != "" {
		why = "KVM booted a guest on another kernel of this host, " + k.Accelerated
	}
	return &sandbox.Unsupported{Guarantee: "a machine that the processor encloses",
		Reason: "start microvm: " + why + ": the machine would be emulated, many times slower, and enclosed by QEMU alone",
		Fix:    installing + " tries KVM again; or use --isolation gvisor or native", Residue: Residue}
}

// accelerated reports whether KVM is to be used: a test guest booted on this very kernel, and
// the device opens.
func (k installed) accelerated() bool {
	return k.Accelerated != "" && k.Accelerated == hostRelease() && unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) == nil
}

func hostRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// parts finds everything, and refuses what another user could have changed.
func (d *Driver) parts() (p parts, err error) {
	if p.program, err = d.program(); err != nil {
		return p, err
	}
	if p.qemu, p.server, err = d.programs(); err != nil {
		return p, err
	}
	if p.kernel, err = d.installed(); err != nil {
		return p, err
	}
	if p.initrd, err = p.kernel.Initrd(p.program); err != nil {
		return p, fmt.Errorf("start microvm: %w", err)
	}
	return p, nil
}

// programs finds QEMU and the server of files.
func (d *Driver) programs() (qemu, server string, err error) {
	if runtime.GOARCH != "amd64" {
		return "", "", lacking("machines are built for amd64 alone", "use --isolation gvisor or native")
	}
	qemu, err = d.find(qemuName, d.o.Path, "apt install qemu-system-x86, or your distribution's package of it")
	if err == nil {
		server, err = d.find(serverName, serverFolders, "apt install qemu-system-common")
	}
	return qemu, server, err
}

// installed is the kernel of guests, as it was installed.
func (d *Driver) installed() (installed, error) {
	k, err := kernel.Load(d.o.Kernel)
	switch {
	case errors.Is(err, kernel.ErrNone):
		return installed{}, lacking(err.Error(), "")
	case err != nil:
		return installed{}, lacking(err.Error(), installing+" installs it again")
	}
	return installed{k}, nil
}

func (d *Driver) program() (string, error) {
	return d.trusted(d.o.Program)
}

func (d *Driver) trusted(at string) (string, error) {
	if d.o.Trusted == nil {
		return at, nil
	}
	real, err := d.o.Trusted(at)
	if err != nil {
		return "", lacking(err.Error(), "")
	}
	return real, nil
}

func (d *Driver) find(name string, folders []string, fix string) (string, error) {
	for _, dir := range folders {
		at := filepath.Join(dir, name)
		fi, err := os.Stat(at)
		if dir == "" || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("start microvm: %w", err)
		}
		if fi.Mode().IsRegular() && fi.Mode().Perm()&0o111 != 0 {
			return d.trusted(at)
		}
	}
	return "", lacking("the program "+name+" is not installed", fix)
}
