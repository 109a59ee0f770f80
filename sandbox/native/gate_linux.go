package native

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
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

// buildGate adds the steps that make the network: every address is local, TCP
// and DNS go to sockets that are handed out, the rest is refused at once. There
// is no interface but loopback, so nothing depends on the rules to keep
// packets in: they only make refusals fast and give the guardian its sockets.
func (d *Driver) buildGate(p *program, control int) error {
	rules, err := d.rules()
	if err != nil {
		return err
	}
	ipv6 := rules.ipv6
	if err := p.loopback(ipv6); err != nil {
		return err
	}
	p.converse("packet rules", unix.NETLINK_NETFILTER, rules.text, rules.acks)

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
	return nil
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

// loopback brings lo up and makes every address local.
func (p *program) loopback(ipv6 bool) error {
	const loopbackIndex = 1 // lo is the first interface of every network namespace
	up := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(up[4:], loopbackIndex)
	binary.NativeEndian.PutUint32(up[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(up[12:], unix.IFF_UP)
	messages := []netlink.Message{{
		Header: netlink.Header{Type: unix.RTM_NEWLINK, Flags: netlink.Request | netlink.Acknowledge}, Data: up,
	}}
	families := []byte{unix.AF_INET}
	if ipv6 {
		families = append(families, unix.AF_INET6)
	}
	for _, family := range families {
		route := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}
		attrs, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.RTA_OIF, Data: binary.NativeEndian.AppendUint32(nil, loopbackIndex)}})
		if err != nil {
			return fmt.Errorf("write down routes: %w", err)
		}
		messages = append(messages, netlink.Message{
			Header: netlink.Header{Type: unix.RTM_NEWROUTE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
			Data:   append(route, attrs...),
		})
	}
	text, err := marshal(messages)
	if err != nil {
		return err
	}
	p.converse("routes", unix.NETLINK_ROUTE, text, len(messages))
	return nil
}

// converse sends netlink messages in one write and requires an answer without
// an error for each that asked for one.
func (p *program) converse(name string, family int, text []byte, acks int) {
	fd := p.cell()
	p.sys("open netlink for "+name, unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family).to(fd)
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	p.sys("set "+name, unix.SYS_SENDTO, fd, text, len(text), 0, kernel, len(kernel)).want(int64(len(text)))
	for range acks {
		answer := make([]byte, 1024)
		p.sys("hear of "+name, unix.SYS_RECVFROM, fd, answer, len(answer), unix.MSG_DONTWAIT, 0, 0)
		p.look(zero, int32At(answer, 16), "set "+name)
	}
	p.sys("close netlink for "+name, unix.SYS_CLOSE, fd)
}

func marshal(messages []netlink.Message) ([]byte, error) {
	var out bytes.Buffer
	for i, m := range messages {
		m.Header.Length = uint32(unix.SizeofNlMsghdr + len(m.Data))
		m.Header.Sequence = uint32(i + 1)
		pad := (4 - len(m.Data)%4) % 4
		m.Data = append(m.Data, make([]byte, pad)...)
		m.Header.Length += uint32(pad)
		b, err := m.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("write down netlink message %d: %w", i, err)
		}
		out.Write(b)
	}
	return out.Bytes(), nil
}

// packetRules is the gate's nftables table as the bytes of one transaction, and
// how many answers it will get.
type packetRules struct {
	text []byte
	acks int
	ipv6 bool
}

func ruleset() (packetRules, error) {
	ipv6 := haveIPv6()
	var sent []netlink.Message
	c, err := nftables.New(nftables.WithTestDial(func(req []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, req...)
		return req, nil
	}))
	if err != nil {
		return packetRules{}, fmt.Errorf("write down packet rules: %w", err)
	}
	table := c.AddTable(&nftables.Table{Name: "cloister", Family: nftables.TableFamilyINet})
	nat := c.AddChain(&nftables.Chain{Name: "redirect", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	filter := c.AddChain(&nftables.Chain{Name: "refuse", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter})
	rule := func(ch *nftables.Chain, parts ...[]expr.Any) {
		var exprs []expr.Any
		for _, part := range parts {
			exprs = append(exprs, part...)
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: ch, Exprs: exprs})
	}
	leave, pass := verdict(expr.VerdictReturn), verdict(expr.VerdictAccept)
	for _, ch := range []*nftables.Chain{nat, filter} {
		end := leave
		if ch == filter {
			end = pass
		}
		rule(ch, proto(unix.NFPROTO_IPV4), to4(netip.MustParsePrefix("127.0.0.0/8")), end)
		if ipv6 {
			rule(ch, proto(unix.NFPROTO_IPV6), to6(netip.IPv6Loopback()), end)
		}
	}
	rule(nat, transport(unix.IPPROTO_TCP), port(destination, dnsPort), leave)
	rule(nat, proto(unix.NFPROTO_IPV4), transport(unix.IPPROTO_TCP), dnat(unix.NFPROTO_IPV4, netip.MustParseAddr(gateAddr4)))
	if ipv6 {
		rule(nat, proto(unix.NFPROTO_IPV6), transport(unix.IPPROTO_TCP), dnat(unix.NFPROTO_IPV6, netip.MustParseAddr(gateAddr6)))
	}
	rule(filter, transport(unix.IPPROTO_TCP), pass)
	rule(filter, transport(unix.IPPROTO_UDP), port(destination, dnsPort), pass)
	rule(filter, transport(unix.IPPROTO_UDP), port(source, dnsPort), pass)
	refuse := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
	rule(filter, transport(unix.IPPROTO_UDP), refuse)
	rule(filter, proto(unix.NFPROTO_IPV4), transport(unix.IPPROTO_ICMP), icmpType(8), refuse)
	if ipv6 {
		rule(filter, proto(unix.NFPROTO_IPV6), transport(unix.IPPROTO_ICMPV6), icmpType(128), refuse)
	}
	if err := c.Flush(); err != nil {
		return packetRules{}, fmt.Errorf("write down packet rules: %w", err)
	}
	acks := 0
	for i, m := range sent {
		// The library asks for an echo of each rule; the child reads no echoes.
		sent[i].Header.Flags &^= netlink.Echo
		if m.Header.Flags&netlink.Acknowledge != 0 {
			acks++
		}
		sent[i].Header.PID = 0
	}
	text, err := marshal(sent)
	return packetRules{text, acks, ipv6}, err
}

func verdict(k expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: k}} }

func equals(data []byte) *expr.Cmp {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data}
}

func proto(family byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equals([]byte{family})}
}

func transport(number byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{number})}
}

func to4(p netip.Prefix) []expr.Any {
	mask := make([]byte, 4)
	binary.BigEndian.PutUint32(mask, ^uint32(0)<<(32-p.Bits()))
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: mask, Xor: make([]byte, 4)},
		equals(p.Addr().AsSlice()),
	}
}

func to6(a netip.Addr) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}, equals(a.AsSlice())}
}

// Offsets of the ports in a TCP or UDP header.
const (
	source      = 0
	destination = 2
)

func port(offset uint32, number uint16) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}, equals(binaryutil.BigEndian.PutUint16(number))}
}

func icmpType(t byte) []expr.Any {
	return []expr.Any{&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 1}, equals([]byte{t})}
}

func dnat(family uint32, a netip.Addr) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: a.AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(gatePort)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1, RegProtoMin: 2},
	}
}

// haveIPv6 tells whether this kernel has the protocol at all. Where it has not,
// no socket of it can be opened inside either.
func haveIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}
