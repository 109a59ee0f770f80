package native

import (
	_ "embed" // of the messages
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The gate's own addresses inside, and the port of its TCP listener. The port
// is one that no program listens on, the addresses lie in ranges that never
// occur outside: RFC 2544 (198.18.0.0/15) and RFC 4193 (fd00::/8).
const (
	gateAddr4 = "198.18.0.1"
	gateAddr6 = "fd00:c1::1"
	gatePort  = 1
	dnsPort   = 53
)

// The netlink messages that make the gate: lo up with every address local, and
// the packet rules as one transaction. They are the same in every cloister, so
// they are written down once, by the libraries for it: go generate .
//
//go:generate go test -run ^TestGateMessages$ . -update
var (
	//go:embed gate/routes-ipv4.bin
	routesIPv4 []byte
	//go:embed gate/routes-both.bin
	routesBoth []byte
	//go:embed gate/rules-ipv4.bin
	rulesIPv4 []byte
	//go:embed gate/rules-both.bin
	rulesBoth []byte
)

// answers counts the messages that ask for an answer.
func answers(text []byte) int {
	n := 0
	for len(text) >= unix.SizeofNlMsghdr {
		if binary.NativeEndian.Uint16(text[6:])&unix.NLM_F_ACK != 0 {
			n++
		}
		text = text[min(int(binary.NativeEndian.Uint32(text)), len(text)):]
	}
	return n
}

// buildGate adds the steps that make the network: every address is local, TCP
// and DNS go to sockets that are handed out, the rest is refused at once. There
// is no interface but loopback, so nothing depends on the rules to keep
// packets in: they only make refusals fast and give the guardian its sockets.
func (p *program) buildGate(control int) {
	ipv6 := haveIPv6()
	routes, rules := routesIPv4, rulesIPv4
	if ipv6 {
		routes, rules = routesBoth, rulesBoth
	}
	p.converse("routes", unix.NETLINK_ROUTE, routes)
	p.converse("packet rules", unix.NETLINK_NETFILTER, rules)

	count := 3
	if ipv6 {
		count = 6
	}
	fds := make([]int32, count)
	space := make([]byte, unix.CmsgSpace(4*count))
	h := (*unix.Cmsghdr)(cmsgAt(space))
	h.Level, h.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	h.SetLen(unix.CmsgLen(4 * count))
	cells := cmsgInts(space, count)

	any4, gate4 := sockaddr4(netip.IPv4Unspecified(), dnsPort), sockaddr4(netip.MustParseAddr(gateAddr4), gatePort)
	p.listen("gate", unix.AF_INET, unix.SOCK_STREAM, gate4, &cells[0])
	p.listen("DNS", unix.AF_INET, unix.SOCK_DGRAM, any4, &cells[1])
	p.listen("DNS over TCP", unix.AF_INET, unix.SOCK_STREAM, any4, &cells[2])
	if ipv6 {
		any6, gate6 := sockaddr6(netip.IPv6Unspecified(), dnsPort), sockaddr6(netip.MustParseAddr(gateAddr6), gatePort)
		p.listen("gate (IPv6)", unix.AF_INET6, unix.SOCK_STREAM, gate6, &cells[3])
		p.listen("DNS (IPv6)", unix.AF_INET6, unix.SOCK_DGRAM, any6, &cells[4])
		p.listen("DNS over TCP (IPv6)", unix.AF_INET6, unix.SOCK_STREAM, any6, &cells[5])
	}
	p.keep = append(p.keep, fds, space)
	p.send("hand out the gate", control, space)
	for i := range count {
		p.sys("close gate socket", unix.SYS_CLOSE, &cells[i])
	}
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
	p.sys("open netlink for "+name, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family).to(fd)
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	p.sys("set "+name, unix.SYS_SENDTO, fd, text, len(text), 0, kernel, len(kernel)).want(int64(len(text)))
	for range answers(text) {
		answer := make([]byte, 1024)
		p.sys("hear of "+name, unix.SYS_RECVFROM, fd, answer, len(answer), unix.MSG_DONTWAIT, 0, 0)
		p.look(zero, int32At(answer, 16), "set "+name)
	}
	p.sys("close netlink for "+name, unix.SYS_CLOSE, fd)
}

// haveIPv6 tells whether this kernel has the protocol at all. Where it has not,
// no socket of it can be opened inside either.
func haveIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}
