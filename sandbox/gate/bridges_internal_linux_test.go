package gate

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// bridgeRouting asks for the routes of bridges before the one by which every address is
// local, and after the addresses that are this host's own.
func bridgeRouting(bool) ([]byte, error) {
	const toTable = 1 // FR_ACT_TO_TBL
	var messages []netlink.Message
	say := func(kind netlink.HeaderType, flags netlink.HeaderFlags, table byte, attrs ...netlink.Attribute) error {
		body := []byte{unix.AF_INET, 0, 0, 0, table, 0, 0, toTable, 0, 0, 0, 0}
		text, err := netlink.MarshalAttributes(attrs)
		if err != nil {
			return fmt.Errorf("write down rules of routing: %w", err)
		}
		messages = append(messages, netlink.Message{
			Header: netlink.Header{Type: kind, Flags: netlink.Request | netlink.Acknowledge | flags}, Data: append(body, text...),
		})
		return nil
	}
	number := func(kind uint16, n uint32) netlink.Attribute {
		return netlink.Attribute{Type: kind, Data: binary.NativeEndian.AppendUint32(nil, n)}
	}
	for _, err := range []error{
		say(unix.RTM_NEWRULE, netlink.Create, unix.RT_TABLE_LOCAL, number(unix.FRA_PRIORITY, 1), number(unix.FRA_SUPPRESS_PREFIXLEN, 0)),
		say(unix.RTM_NEWRULE, netlink.Create, unix.RT_TABLE_MAIN, number(unix.FRA_PRIORITY, 2)),
		say(unix.RTM_NEWRULE, netlink.Create, unix.RT_TABLE_LOCAL, number(unix.FRA_PRIORITY, 3)),
		say(unix.RTM_DELRULE, 0, unix.RT_TABLE_LOCAL, number(unix.FRA_PRIORITY, 0)),
	} {
		if err != nil {
			return nil, err
		}
	}
	return marshal(messages)
}

// bridging is the table of bridges. A connection that this host makes to one of its
// containers keeps its destination: a mapping to itself is what the gate's chain finds made.
func bridging(bool) ([]byte, error) {
	var sent []netlink.Message
	c, err := nftables.New(nftables.WithTestDial(func(req []netlink.Message) ([]netlink.Message, error) {
		sent = append(sent, req...)
		return req, nil
	}))
	if err != nil {
		return nil, fmt.Errorf("write down the rules of bridges: %w", err)
	}
	table := c.AddTable(&nftables.Table{Name: "bridges", Family: nftables.TableFamilyINet})
	before := *nftables.ChainPriorityNATDest - 10
	own := c.AddChain(&nftables.Chain{Name: "own", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookOutput, Priority: &before})
	come := c.AddChain(&nftables.Chain{Name: "come", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest})
	rule := func(ch *nftables.Chain, parts ...[]expr.Any) {
		var exprs []expr.Any
		for _, part := range parts {
			exprs = append(exprs, part...)
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: ch, Exprs: exprs})
	}
	const loopbackIndex = 1
	other := func(key expr.MetaKey) []expr.Any {
		return []expr.Any{&expr.Meta{Key: key, Register: 1},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, loopbackIndex)}}
	}
	tcp := append(proto(unix.NFPROTO_IPV4), transport(unix.IPPROTO_TCP)...)
	rule(own, other(expr.MetaKeyOIF), tcp, []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1},
	})
	rule(come, other(expr.MetaKeyIIF), tcp, port(destination, DNSPort), verdict(expr.VerdictReturn))
	rule(come, other(expr.MetaKeyIIF), tcp, dnat(unix.NFPROTO_IPV4, netip.MustParseAddr(Addr4)))
	if err := c.Flush(); err != nil {
		return nil, fmt.Errorf("write down the rules of bridges: %w", err)
	}
	for i := range sent {
		sent[i].Header.Flags &^= netlink.Echo
		sent[i].Header.PID = 0
	}
	return marshal(sent)
}
