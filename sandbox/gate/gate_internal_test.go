//go:build linux

package gate

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write what is generated")

// TestGateMessages holds the gate's messages to what is written down here.
func TestGateMessages(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(ipv6 bool) ([]byte, error)
		ipv6 bool
		have []byte
	}{
		"routes-ipv4": {routes, false, routesIPv4},
		"routes-both": {routes, true, routesBoth},
		"rules-ipv4":  {ruleset, false, rulesIPv4},
		"rules-both":  {ruleset, true, rulesBoth},
		"refusals":    {refusals, true, refusalsBoth},
		"peers":       {peers, false, peersOne},

		"bridge-routes": {bridgeRouting, false, bridgeRoutes},
		"bridge-rules":  {bridging, false, bridgeRules},
	} {
		want, err := tt.make(tt.ipv6)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile("messages/"+name+".bin", want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !bytes.Equal(tt.have, want) {
			t.Errorf("messages/%s.bin is not what is written down: go generate ./sandbox/gate", name)
		}
	}
}

// routes brings lo up and makes every address local.
func routes(ipv6 bool) ([]byte, error) {
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
		// Reno by name: the host's default may pace what it sends by timers (BBR
		// does), which costs more than the bytes do where there is nothing to
		// pace for (docs/decisions/0026). Every kernel has Reno.
		metrics, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.RTAX_CC_ALGO, Data: []byte("reno\x00")}})
		if err != nil {
			return nil, fmt.Errorf("write down routes: %w", err)
		}
		attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
			{Type: unix.RTA_OIF, Data: binary.NativeEndian.AppendUint32(nil, loopbackIndex)},
			{Type: unix.RTA_METRICS | unix.NLA_F_NESTED, Data: metrics},
		})
		if err != nil {
			return nil, fmt.Errorf("write down routes: %w", err)
		}
		messages = append(messages, netlink.Message{
			Header: netlink.Header{Type: unix.RTM_NEWROUTE, Flags: netlink.Request | netlink.Acknowledge | netlink.Create | netlink.Excl},
			Data:   append(route, attrs...),
		})
	}
	return marshal(messages)
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

// ruleset is the gate's nftables table as the bytes of one transaction.
func ruleset(ipv6 bool) ([]byte, error) {
	var sent []netlink.Message
	c, err := nftables.New(nftables.WithTestDial(func(req []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, req...)
		return req, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("write down packet rules: %w", err)
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
	rule(nat, transport(unix.IPPROTO_TCP), port(destination, DNSPort), leave)
	rule(nat, proto(unix.NFPROTO_IPV4), transport(unix.IPPROTO_TCP), dnat(unix.NFPROTO_IPV4, netip.MustParseAddr(Addr4)))
	if ipv6 {
		rule(nat, proto(unix.NFPROTO_IPV6), transport(unix.IPPROTO_TCP), dnat(unix.NFPROTO_IPV6, netip.MustParseAddr(Addr6)))
	}
	rule(filter, transport(unix.IPPROTO_TCP), pass)
	rule(filter, transport(unix.IPPROTO_UDP), port(destination, DNSPort), pass)
	rule(filter, transport(unix.IPPROTO_UDP), port(source, DNSPort), pass)
	refuse := []expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
	tell := []expr.Any{&expr.Log{Key: 1 << unix.NFTA_LOG_GROUP, Group: refusedGroup}}
	rule(filter, transport(unix.IPPROTO_UDP), tell, refuse)
	rule(filter, proto(unix.NFPROTO_IPV4), transport(unix.IPPROTO_ICMP), icmpType(8), refuse)
	if ipv6 {
		rule(filter, proto(unix.NFPROTO_IPV6), transport(unix.IPPROTO_ICMPV6), icmpType(128), refuse)
	}
	if err := c.Flush(); err != nil {
		return nil, fmt.Errorf("write down packet rules: %w", err)
	}
	for i := range sent {
		// The library asks for an echo of each rule; the child reads no echoes.
		sent[i].Header.Flags &^= netlink.Echo
		sent[i].Header.PID = 0
	}
	return marshal(sent)
}

// peers are the rules for one peer, before those of ruleset.
func peers(bool) ([]byte, error) {
	var sent []netlink.Message
	c, err := nftables.New(nftables.WithTestDial(func(req []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, req...)
		return req, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("write down the rules of peers: %w", err)
	}
	table := c.AddTable(&nftables.Table{Name: "cloister", Family: nftables.TableFamilyINet})
	before := *nftables.ChainPriorityNATDest - 10
	chain := c.AddChain(&nftables.Chain{Name: "peers", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: &before})
	tcpTo := func(a netip.Addr) []expr.Any {
		return append(append(proto(unix.NFPROTO_IPV4), to4(netip.PrefixFrom(a, 32))...), transport(unix.IPPROTO_TCP)...)
	}
	self := append(tcpTo(PeerAddr(selfMark)),
		&expr.Immediate{Register: 1, Data: PeerAddr(selfMark).AsSlice()},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: self})
	other := append(tcpTo(PeerAddr(otherMark)), dnat(unix.NFPROTO_IPV4, PeerSocket().Addr.Addr())...)
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: other})
	if err := c.Flush(); err != nil {
		return nil, fmt.Errorf("write down the rules of peers: %w", err)
	}
	for i := range sent {
		sent[i].Header.Flags &^= netlink.Echo
		sent[i].Header.PID = 0
	}
	return marshal(sent)
}

// TestPeerMessages: each peer has a rule, the cloister itself one, and no mark is left.
func TestPeerMessages(t *testing.T) {
	text := PeerMessages(3, []uint8{1, 2})
	for _, n := range []uint8{1, 2, 3} {
		if !bytes.Contains(text, mark(n)) {
			t.Errorf("nothing speaks of %s", PeerAddr(n))
		}
	}
	for _, n := range []uint8{selfMark, otherMark} {
		if bytes.Contains(text, mark(n)) {
			t.Errorf("%s is left", PeerAddr(n))
		}
	}
	if one, two := Answers(PeerMessages(1, nil)), Answers(text); two != one+2 {
		t.Errorf("%d answers for two peers, %d for none", two, one)
	}
	for _, a := range []netip.Addr{PeerAddr(0), PeerAddr(MaxPeers + 1), netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::1")} {
		if n := PeerNumber(a); n != 0 {
			t.Errorf("%s is peer %d", a, n)
		}
	}
	if n := PeerNumber(netip.MustParseAddr("::ffff:203.0.113.7")); n != 7 {
		t.Errorf("%d", n)
	}
}

// refusedGroup is the group of the kernel's packet log that the rules write to. A
// network namespace has groups of its own.
const refusedGroup = 1

// The attributes of a group's configuration: linux/netfilter/nfnetlink_log.h.
const (
	logConfig     = unix.NFNL_SUBSYS_ULOG<<8 | 1
	logCommand    = 1
	logMode       = 2
	logBuffer     = 3
	logThreshold  = 5
	logBind       = 1
	logCopyPacket = 2
)

// refusals makes the socket that sends it the one which reads the log of refused
// packets: the first bytes of each, as soon as it is refused.
func refusals(bool) ([]byte, error) {
	mode := append(binary.BigEndian.AppendUint32(nil, RefusedBytes), logCopyPacket, 0)
	attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: logCommand, Data: []byte{logBind}},
		{Type: logMode, Data: mode},
		{Type: logBuffer, Data: binary.BigEndian.AppendUint32(nil, 512)},
		{Type: logThreshold, Data: binary.BigEndian.AppendUint32(nil, 1)},
	})
	if err != nil {
		return nil, fmt.Errorf("write down the log of refusals: %w", err)
	}
	group := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, 0}, refusedGroup)
	return marshal([]netlink.Message{{
		Header: netlink.Header{Type: logConfig, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append(group, attrs...),
	}})
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
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(Port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1, RegProtoMin: 2},
	}
}
