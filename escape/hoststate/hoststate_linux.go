// Package hoststate tells whether a host is as it was: its mounts, devices, addresses, packet
// rules and kernel settings.
//
// It promises an error for each of them that came, went or changed while something was done. It
// mends nothing, and what container engines beside it come and go with is left out. Most readers
// want Unchanged.
package hoststate

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Unchanged does something. Its error is also that this host is not as it was
// before, as far as the calling process sees it: its mounts, network or settings.
func Unchanged(do func() error) error {
	before, err := now()
	if err != nil {
		return err
	}
	err = do()
	after, herr := now()
	return errors.Join(err, herr, changes(before, after))
}

// now is what no attempt and no control may change: mounts, addresses,
// devices, routes, packet rules, kernel settings, names, a fact on each line.
func now() ([]string, error) {
	var out []string
	for _, part := range []func() ([]string, error){mountsNow, devicesNow, addressesNow, rulesNow, settingsNow} {
		lines, err := part()
		if err != nil {
			return nil, fmt.Errorf("look at the host: %w", err)
		}
		out = append(out, lines...)
	}
	slices.Sort(out)
	return out, nil
}

// changes are the lines that came and went.
func changes(before, after []string) error {
	var errs []error
	for _, line := range after {
		if !slices.Contains(before, line) {
			errs = append(errs, errors.New("the host was changed: new: "+line))
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			errs = append(errs, errors.New("the host was changed: gone: "+line))
		}
	}
	return errors.Join(errs...)
}

// engine tells what container engines beside this run come and go with.
func engine(name string) bool {
	return strings.Contains(name, "/docker") || strings.Contains(name, "/containerd") || strings.Contains(name, "/podman/") ||
		strings.HasPrefix(name, "veth") || strings.HasPrefix(name, "docker") || strings.Contains(name, "/engine/") || strings.HasPrefix(name, "br-") ||
		strings.Contains(name, "/kubelet") || strings.HasPrefix(name, "/run/netns") || strings.Contains(name, "pods0")
}

func mountsNow() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		// From the device's number on: proc_pid_mountinfo(5).
		if f := strings.Fields(line); len(f) > 5 && !engine(f[4]) {
			out = append(out, "mount "+strings.Join(f[2:], " "))
		}
	}
	return out, nil
}

// devicesNow are the nodes that every program relies on.
func devicesNow() ([]string, error) {
	var out []string
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty", "ptmx", "kmsg"} {
		var st unix.Stat_t
		if err := unix.Lstat("/dev/"+name, &st); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
		out = append(out, fmt.Sprintf("device %s %o %x of %d", name, st.Mode, st.Rdev, st.Uid))
	}
	return out, nil
}

func addressesNow() ([]string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range list {
		if engine(i.Name) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("interface %s %v %v", i.Name, i.Flags&net.FlagUp, addrs))
	}
	text, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if !engine(line) {
			out = append(out, "route "+strings.TrimSpace(line))
		}
	}
	return out, nil
}

// rulesNow are the tables of the packet filter, with how many rules each has.
// Who may not see them may not change them either.
func rulesNow() ([]string, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	chains, err := conn.ListChains()
	if errors.Is(err, unix.EPERM) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range chains {
		rules, err := conn.GetRules(c.Table, c)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("rules %s %s: %d", c.Table.Name, c.Name, len(rules)))
	}
	return out, nil
}

// settingsNow are the kernel's settings that attempts reach for.
func settingsNow() ([]string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, err
	}
	out := []string{"name " + unix.ByteSliceToString(u.Nodename[:]) + " " + unix.ByteSliceToString(u.Domainname[:])}
	for _, pattern := range []string{
		"net/ipv4/ip*", "net/ipv4/ping_group_range", "net/ipv4/conf/all/*", "net/ipv4/conf/lo/*", "user/*", "fs/protected_*", "fs/suid_dumpable",
		"kernel/core_pattern", "kernel/modprobe", "kernel/kptr_restrict", "kernel/randomize_va_space", "kernel/yama/*", "kernel/unprivileged_*", "vm/overcommit_memory",
	} {
		files, err := filepath.Glob("/proc/sys/" + pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EIO) {
				continue // not for this user, a folder, or only written to
			}
			if err != nil {
				return nil, err
			}
			out = append(out, strings.TrimPrefix(file, "/proc/sys/")+" = "+strings.TrimSpace(string(text)))
		}
	}
	return out, nil
}
