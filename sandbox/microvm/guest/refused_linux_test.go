package guest

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
	"cloister/sandbox/microvm/wire"
)

// apartKey says that this process has a network of its own.
const apartKey = "CLOISTER_GUEST_APART"

// TestRefused has the rules of a gate refuse datagrams, and the guest tell its monitor of each.
func TestRefused(t *testing.T) {
	if os.Getenv(apartKey) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRefused$", "-test.v")
		c.Env = append(os.Environ(), apartKey+"=1")
		one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: one(os.Getuid()), GidMappings: one(os.Getgid())}
		text, err := c.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			needs.Missing(t, "userns", err)
		}
		if err != nil {
			t.Errorf("%v: %s", err, text)
		}
		return
	}
	v6 := gate.HaveIPv6()
	routes, rules := gate.Messages(v6)
	if err := errors.Join(lay.Converse(unix.NETLINK_ROUTE, routes), lay.Converse(unix.NETLINK_NETFILTER, rules)); err != nil {
		t.Fatal(err)
	}
	fd, err := lay.Say(unix.NETLINK_NETFILTER, gate.Refusals())
	if err != nil {
		t.Fatal(err)
	}
	here, there := net.Pipe()
	own, err := wire.Guest(here)
	if err != nil {
		t.Fatal(err)
	}
	monitor, err := wire.Monitor(there)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = tellRefused(fd, own) }() // it ends with this process
	want := []string{"203.0.113.31:443", "203.0.113.32:5353", "203.0.113.31:443"}
	if v6 {
		want = append(want, "[2001:db8::1]:53000")
	}
	for _, to := range want {
		c, err := net.Dial("udp", to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, unix.EPERM) {
			t.Errorf("control: a datagram to %s: %v", to, err)
		}
		_ = c.Close()
	}
	s, err := monitor.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Head
	if err := wire.HearHead(s, &h); err != nil || !h.Refused {
		t.Fatalf("%+v, %v", h, err)
	}
	var got []string
	for range want {
		text, err := wire.ReadFrame(s, make([]byte, wire.MaxDestination))
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		got = append(got, string(text))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("told %q, want %q", got, want)
	}
}
