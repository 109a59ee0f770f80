package gate

import (
	_ "embed" // of the messages
	"encoding/binary"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// The netlink messages that make the gate: lo up with every address local, and
// the packet rules as one transaction. They are the same in every cloister, so
// they are written down once, by the libraries for it: go generate .
//
//go:generate go test -run ^TestGateMessages$ . -update
var (
	//go:embed messages/routes-ipv4.bin
	routesIPv4 []byte
	//go:embed messages/routes-both.bin
	routesBoth []byte
	//go:embed messages/rules-ipv4.bin
	rulesIPv4 []byte
	//go:embed messages/rules-both.bin
	rulesBoth []byte
	//go:embed messages/refusals.bin
	refusalsBoth []byte
	//go:embed messages/peers.bin
	peersOne []byte
)

// RefusedBytes is how much of a refused datagram the kernel tells: its headers, with
// the longest of IPv4 and some of IPv6's extensions.
const RefusedBytes = 128

// Refusals is the one message of a conversation for NETLINK_NETFILTER. Its socket is
// then notified of each datagram that the rules refuse, and of nothing else; it is handed
// out as the last of the gate's.
func Refusals() []byte { return refusalsBoth }

// Messages are the two conversations that make a gate: for NETLINK_ROUTE and for
// NETLINK_NETFILTER.
func Messages(ipv6 bool) (routes, rules []byte) {
	if ipv6 {
		return routesBoth, rulesBoth
	}
	return routesIPv4, rulesIPv4
}

// Loopback is the first word of those conversations by itself: lo is up, which gives
// it 127.0.0.0/8 and ::1. It is all the network of a cloister that has no gate.
func Loopback() []byte {
	return routesIPv4[:binary.NativeEndian.Uint32(routesIPv4)]
}

// Answers counts the messages that ask for an answer.
func Answers(text []byte) int {
	n := 0
	for len(text) >= unix.SizeofNlMsghdr {
		if binary.NativeEndian.Uint16(text[6:])&unix.NLM_F_ACK != 0 {
			n++
		}
		text = text[min(int(binary.NativeEndian.Uint32(text)), len(text)):]
	}
	return n
}

// Socket is one of the gate's.
type Socket struct {
	Name   string
	Family int
	Type   int
	Addr   netip.AddrPort
}

// Sockets are those that a gate hands out, in the order in which they are passed. The
// one of Refusals comes after them.
func Sockets(ipv6 bool) []Socket {
	any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), DNSPort)
	own4 := netip.AddrPortFrom(netip.MustParseAddr(Addr4), Port)
	list := []Socket{
		{"gate", unix.AF_INET, unix.SOCK_STREAM, own4},
		{"DNS", unix.AF_INET, unix.SOCK_DGRAM, any4},
		{"DNS over TCP", unix.AF_INET, unix.SOCK_STREAM, any4},
	}
	if !ipv6 {
		return list
	}
	any6 := netip.AddrPortFrom(netip.IPv6Unspecified(), DNSPort)
	own6 := netip.AddrPortFrom(netip.MustParseAddr(Addr6), Port)
	return append(list,
		Socket{"gate (IPv6)", unix.AF_INET6, unix.SOCK_STREAM, own6},
		Socket{"DNS (IPv6)", unix.AF_INET6, unix.SOCK_DGRAM, any6},
		Socket{"DNS over TCP (IPv6)", unix.AF_INET6, unix.SOCK_STREAM, any6},
	)
}

// HaveIPv6 reports whether this kernel has the protocol at all. Where it has not,
// no socket of it can be opened inside either.
func HaveIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}
