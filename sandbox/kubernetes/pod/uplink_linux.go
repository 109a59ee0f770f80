package pod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// uplink is a network namespace that the gate's process alone is in, by one thread.
type uplink struct{ calls chan func() }

// newUplink makes one that has nothing yet.
func newUplink() (*uplink, *os.File, error) {
	u := &uplink{make(chan func())}
	type made struct {
		ns  *os.File
		err error
	}
	first := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread is of no use to others
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			first <- made{err: fmt.Errorf("make a network namespace: %w", err)}
			return
		}
		ns, err := os.Open("/proc/thread-self/ns/net")
		first <- made{ns, err}
		if err != nil {
			return
		}
		for f := range u.calls {
			f()
		}
	}()
	m := <-first
	return u, m.ns, m.err
}

// in does something in the namespace.
func (u *uplink) in(f func() error) error {
	done := make(chan error)
	u.calls <- func() { done <- f() }
	return <-done
}

// taken is an interface with what it loses on its way.
type taken struct {
	name   string
	addrs  []netlink.Addr
	routes []netlink.Route
}

// takeInterfaces moves every interface that leads anywhere into a namespace of the gate's own.
func takeInterfaces() (*uplink, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	u, ns, err := newUplink()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	for _, l := range links {
		if !leads(l) {
			continue
		}
		t := taken{name: l.Attrs().Name}
		if t.addrs, err = netlink.AddrList(l, netlink.FAMILY_ALL); err != nil {
			return nil, fmt.Errorf("read the addresses of %s: %w", t.name, err)
		}
		if t.routes, err = netlink.RouteList(l, netlink.FAMILY_ALL); err != nil {
			return nil, fmt.Errorf("read the routes of %s: %w", t.name, err)
		}
		if err := netlink.LinkSetNsFd(l, int(ns.Fd())); err != nil {
			return nil, fmt.Errorf("take the interface %s: %w", t.name, err)
		}
		if err := u.in(t.settle); err != nil {
			return nil, fmt.Errorf("set up the interface %s: %w", t.name, err)
		}
	}
	return u, nil
}

// leads reports whether an interface is up and no loopback.
func leads(l netlink.Link) bool {
	flags := l.Attrs().Flags
	return flags&net.FlagLoopback == 0 && flags&net.FlagUp != 0
}

// settle gives an interface in its new place what it had.
func (t taken) settle() error {
	l, err := netlink.LinkByName(t.name)
	if err != nil {
		return err
	}
	for _, a := range t.addrs {
		if a.IP.IsLinkLocalUnicast() {
			continue // the kernel's own
		}
		a.Label, a.LinkIndex = "", 0
		if err := netlink.AddrAdd(l, &a); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	for _, again := range []bool{false, true} { // those by a gateway need the others
		for _, r := range t.routes {
			if r.Protocol == unix.RTPROT_KERNEL || (r.Gw != nil) != again {
				continue
			}
			r.LinkIndex = l.Attrs().Index
			if err := netlink.RouteAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
	}
	return nil
}

// dial connects by way of the namespace. The address is one of numbers, so that the socket is
// made by the thread that is in it.
func (u *uplink) dial(ctx context.Context, address string) (c net.Conn, err error) {
	if host, _, err := net.SplitHostPort(address); err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("%q is no address and port", address)
	}
	d := net.Dialer{Timeout: dialWithin}
	err = u.in(func() error {
		c, err = d.DialContext(ctx, "tcp", address)
		return err
	})
	return c, err
}

// watchInterfaces tells of an interface that comes to the agent's network later.
func watchInterfaces() (<-chan error, error) {
	updates, out := make(chan netlink.LinkUpdate), make(chan error, 1)
	if err := netlink.LinkSubscribe(updates, nil); err != nil {
		return nil, fmt.Errorf("watch interfaces: %w", err)
	}
	go func() {
		for range updates {
			if err := onlyLoopback(); err != nil && !moving() {
				out <- err
				return
			}
		}
		out <- errors.New("interfaces are not watched any more")
	}()
	return out, nil
}

// moving reports whether the gate still takes the interfaces that were there at first.
func moving() bool {
	_, err := os.Stat(stands)
	return err != nil
}

// onlyLoopback refuses a network that leads anywhere.
func onlyLoopback() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		if leads(l) {
			return fmt.Errorf("the pod's network has the interface %s", l.Attrs().Name)
		}
	}
	return nil
}
