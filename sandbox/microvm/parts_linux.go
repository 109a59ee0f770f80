package microvm

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

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
	if err := opens("/dev/kvm"); err != nil {
		why = err.Error()
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
	return k.Accelerated != "" && k.Accelerated == hostRelease() && opens("/dev/kvm") == nil
}

// opens says why a machine of this user's cannot open a device. Root's machines run as a user
// who is in no group, and none but the device's own mode lets that one in.
func opens(device string) error {
	if err := unix.Access(device, unix.R_OK|unix.W_OK); err != nil {
		return &os.PathError{Op: "open", Path: device, Err: err}
	}
	fi, err := os.Stat(device)
	if err == nil && os.Geteuid() == 0 && fi.Mode().Perm()&0o006 != 0o006 {
		err = fmt.Errorf("%s has mode %04o, and root's machines run as a user who is neither its owner nor in its group: "+
			"chmod 0666 %[1]s, which is systemd's default, or call cloister as a user who may open it", device, fi.Mode().Perm())
	}
	return err
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
	if err == nil {
		err = inC(server)
	}
	return qemu, server, err
}

// inC refuses the server of virtiofs that is written in Rust, which newer distributions have: it
// has other words and walls, and none of this was tried with it. It needs no GLib.
func inC(server string) error {
	f, err := elf.Open(server)
	if err != nil {
		return lacking(fmt.Sprintf("%s is no program: %v", server, err), "apt install qemu-system-common")
	}
	defer func() { _ = f.Close() }() // it was only read
	libraries, err := f.ImportedLibraries()
	ours := func(name string) bool { return strings.HasPrefix(name, "libglib-2.0") }
	if err != nil || !slices.ContainsFunc(libraries, ours) {
		return lacking(server+" is not the virtiofsd of QEMU's own sources, in C, "+
			"but most likely the newer one in Rust, which is not supported",
			"install the virtiofsd of QEMU 7.2 (Debian 12: qemu-system-common), or use --isolation gvisor or native")
	}
	return nil
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
