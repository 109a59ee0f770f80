package inside

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
)

// runGate makes network and view of the agent's container, hands the sockets
// out, and then keeps what is protected until the shim hangs up.
func runGate() error {
	l, err := dial(RoleGate)
	if err != nil {
		return err
	}
	m, err := l.Hear()
	if err != nil {
		return err
	}
	if m.Build == nil {
		return errors.New("the shim said nothing of what to build")
	}
	if err := serveGate(l, *m.Build); err != nil {
		return errors.Join(err, l.Fail(err))
	}
	_, err = l.Hear() // nothing more is said: its end is the end
	if err != nil {
		return nil
	}
	return errors.New("the shim said more than there is to say")
}

// runBorder makes the network of its own container, which the steps of a build
// join, and keeps it until the shim hangs up.
func runBorder() error {
	l, err := dial(RoleBorder)
	if err != nil {
		return err
	}
	if err = wire(l, nil); err == nil {
		err = l.Say(Message{Built: true})
	}
	if err != nil {
		return errors.Join(err, l.Fail(err))
	}
	if _, err := l.Hear(); err != nil { // nothing is said: its end is the end
		return nil // the build is over
	}
	return errors.New("the shim said more than there is to say")
}

func serveGate(l Line, b Build) error {
	spaces := 0
	for _, bind := range b.Binds {
		spaces = max(spaces, bind.Space)
	}
	files, err := l.Take(3 + spaces)
	if err != nil {
		return err
	}
	wired := make(chan error, 1)
	go func() { wired <- network(l, files[2], b.Network, b.Peers) }()
	viewed := make(chan error, 1)
	go view(l, files, b, viewed)
	if err := errors.Join(<-viewed, <-wired); err != nil {
		return err
	}
	return l.Say(Message{Built: true})
}

// network makes the gate in the agent's network namespace. The thread that
// entered it ends with the goroutine.
func network(l Line, ns *os.File, wanted bool, peers *sandbox.Peers) error {
	defer ns.Close()
	if !wanted {
		return nil
	}
	runtime.LockOSThread()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	return wire(l, peers)
}

// wire makes the gate in the network namespace of this thread, and hands its
// sockets out, those of peers first.
func wire(l Line, peers *sandbox.Peers) error {
	if err := onlyLoopback(); err != nil {
		return err
	}
	ipv6 := gate.HaveIPv6()
	routes, rules := gate.Messages(ipv6)
	if err := lay.Converse(unix.NETLINK_ROUTE, routes); err != nil {
		return fmt.Errorf("set routes: %w", err)
	}
	if err := lay.Converse(unix.NETLINK_NETFILTER, rules); err != nil {
		return fmt.Errorf("set packet rules: %w", err)
	}
	if err := besides(l, peers); err != nil {
		return err
	}
	out, err := listenAll(gate.Sockets(ipv6))
	defer func() { closeAll(out) }() // the guardian's from here on, and nobody else's
	if err != nil {
		return err
	}
	fd, err := lay.Say(unix.NETLINK_NETFILTER, gate.Refusals())
	if err != nil {
		return fmt.Errorf("read the log of refusals: %w", err)
	}
	out = append(out, os.NewFile(uintptr(fd), "refusals"))
	return l.Say(Message{Gate: true}, out...)
}

// besides makes the way to the cloisters beside this one, where there are any.
func besides(l Line, peers *sandbox.Peers) error {
	if peers == nil {
		return nil
	}
	if err := lay.Converse(unix.NETLINK_NETFILTER, gate.PeerMessages(peers.Self, peers.Others)); err != nil {
		return fmt.Errorf("set packet rules of peers: %w", err)
	}
	list := []gate.Socket{gate.PeerSocket()}
	for _, port := range peers.Local {
		list = append(list, gate.LocalSocket(port))
	}
	out, err := listenAll(list)
	defer func() { closeAll(out) }()
	if err != nil {
		return err
	}
	return l.Say(Message{Peers: true}, out...)
}

// listenAll opens sockets; those that it opened it gives also where one fails.
func listenAll(list []gate.Socket) (out []*os.File, err error) {
	for _, s := range list {
		f, err := lay.Listen(s)
		if err != nil {
			return out, fmt.Errorf("open %s socket: %w", s.Name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// onlyLoopback refuses a namespace that the engine connected to something.
func onlyLoopback() error {
	list, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("the engine gave the cloister the network interface %s", i.Name)
		}
	}
	return nil
}
