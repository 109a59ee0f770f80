package native

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/gate"
)

// buildGate adds the steps that make the network: every address is local, TCP
// and DNS go to sockets that are handed out, the rest is refused at once. There
// is no interface but loopback, so nothing depends on the rules to keep
// packets in: they only make refusals fast and give the guardian its sockets.
func (p *program) buildGate(control int, peers *sandbox.Peers) {
	ipv6 := gate.HaveIPv6()
	routes, rules := gate.Messages(ipv6)
	p.converse("routes", unix.NETLINK_ROUTE, routes)
	p.converse("packet rules", unix.NETLINK_NETFILTER, rules)
	p.handOut("the gate", control, gate.Sockets(ipv6), func(refusals *int32) {
		p.say("the log of refusals", unix.NETLINK_NETFILTER, gate.Refusals(), refusals)
	})
	if peers == nil {
		return
	}
	p.converse("packet rules of peers", unix.NETLINK_NETFILTER, gate.PeerMessages(peers.Self, peers.Others))
	list := []gate.Socket{}
	for _, port := range peers.Local {
		list = append(list, gate.LocalSocket(port))
	}
	p.handOut("the way to peers", control, list, func(all *int32) {
		s := gate.PeerSocket()
		p.listen(s.Name, s.Family, s.Type, sockaddr(s.Addr), all)
	})
}

// handOut passes sockets to the parent, and after them the one that last opens.
func (p *program) handOut(name string, control int, sockets []gate.Socket, last func(fd *int32)) {
	count := len(sockets) + 1
	space := make([]byte, unix.CmsgSpace(4*count))
	h := cmsgAt(space)
	h.Level, h.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	h.SetLen(unix.CmsgLen(4 * count))
	cells := cmsgInts(space, count)
	for i, s := range sockets {
		p.listen(s.Name, s.Family, s.Type, sockaddr(s.Addr), &cells[i])
	}
	last(&cells[count-1])
	p.keep = append(p.keep, space)
	p.send("hand out "+name, control, space)
	for i := range count {
		p.sys("close a socket of "+name, unix.SYS_CLOSE, &cells[i])
	}
}

// buildLoopback adds the step that lets programs inside speak with each other
// where there is no gate: no address but loopback's, no route, no socket.
func (p *program) buildLoopback() {
	p.converse("loopback", unix.NETLINK_ROUTE, gate.Loopback())
}

// send passes descriptors to the parent with one byte of data.
func (p *program) send(name string, control int, space []byte) {
	data := []byte{1}
	iov := &unix.Iovec{Base: &data[0]}
	iov.SetLen(1)
	msg := &unix.Msghdr{Iov: iov, Control: &space[0]}
	msg.SetIovlen(1)
	msg.SetControllen(len(space))
	p.keep = append(p.keep, data, iov)
	p.sys(name, unix.SYS_SENDMSG, control, pointerTo(msg), unix.MSG_NOSIGNAL).want(1)
}

// listen opens one socket of the gate. A stream socket listens.
func (p *program) listen(name string, family, typ int, addr []byte, fd *int32) {
	p.sys("open "+name+" socket", unix.SYS_SOCKET, family, typ|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0).to(fd)
	if family == unix.AF_INET6 {
		one := binary.NativeEndian.AppendUint32(nil, 1)
		p.sys("keep "+name+" to IPv6", unix.SYS_SETSOCKOPT, fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, one, 4)
		// A local route makes an IPv6 address reachable, not assigned.
		p.sys("free "+name+" of assignment", unix.SYS_SETSOCKOPT, fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, one, 4)
	}
	p.sys("bind "+name, unix.SYS_BIND, fd, addr, len(addr))
	if typ == unix.SOCK_STREAM {
		p.sys("listen for "+name, unix.SYS_LISTEN, fd, 1024)
	}
}

func sockaddr(a netip.AddrPort) []byte {
	if a.Addr().Is4() {
		return sockaddr4(a.Addr(), a.Port())
	}
	return sockaddr6(a.Addr(), a.Port())
}

func sockaddr4(a netip.Addr, port uint16) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	b = binary.BigEndian.AppendUint16(b, port)
	return append(append(b, a.AsSlice()...), make([]byte, 8)...)
}

func sockaddr6(a netip.Addr, port uint16) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, 0, 0, 0, 0)
	return append(append(b, a.AsSlice()...), 0, 0, 0, 0)
}

// converse sends netlink messages in one write and requires an answer without
// an error for each that asked for one.
func (p *program) converse(name string, family int, text []byte) {
	fd := p.cell()
	p.say(name, family, text, fd)
	p.sys("close netlink for "+name, unix.SYS_CLOSE, fd)
}

// say is a conversation whose socket stays open.
func (p *program) say(name string, family int, text []byte, fd *int32) {
	p.sys("open netlink for "+name, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family).to(fd)
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	p.sys("set "+name, unix.SYS_SENDTO, fd, text, len(text), 0, kernel, len(kernel)).want(int64(len(text)))
	for range gate.Answers(text) {
		answer := make([]byte, 1024)
		p.sys("hear of "+name, unix.SYS_RECVFROM, fd, answer, len(answer), unix.MSG_DONTWAIT, 0, 0)
		p.look(zero, int32At(answer, 16), "set "+name)
	}
}
