// Package guard says which addresses no name may lead to.
//
// Most readers want [New] with [Guard.Check]. What a person writes into their own
// configuration opens private ranges and nothing else.
package guard

import "net/netip"

// A block is a range of addresses that is not dialled.
type block struct {
	prefix string
	what   string
	never  bool // not even by a person's word
}

// blocks is the IANA special-purpose registries (RFC 6890 and its updates, v4
// and v6) with the metadata addresses of clouds. netip's predicates know less
// than half of it: IsPrivate has no 100.64/10, IsGlobalUnicast is true for
// 240/4 and for fec0::/10 (CVE-2024-24790 was about mapped addresses).
// The documentation ranges are absent on purpose: nothing routes them, and a
// table cannot make them more unreachable.
func blocks() []block {
	return []block{
		{"0.0.0.0/8", "this network", true},
		{"10.0.0.0/8", "private", false},
		{"100.64.0.0/10", "carrier-grade NAT", false},
		{"100.100.100.200/32", "cloud metadata", true},
		{"127.0.0.0/8", "loopback", false},
		{"168.63.129.16/32", "cloud metadata", true},
		{"169.254.0.0/16", "link-local (cloud metadata)", true},
		{"172.16.0.0/12", "private", false},
		{"192.0.0.0/24", "IETF protocol assignments", true},
		{"192.31.196.0/24", "AS112", false},
		{"192.52.193.0/24", "AMT", false},
		{"192.88.99.0/24", "6to4 relay", true},
		{"192.168.0.0/16", "private", false},
		{"192.175.48.0/24", "AS112", false},
		{"198.18.0.0/15", "benchmarking (the cloister's own names)", false},
		{"224.0.0.0/4", "multicast", true},
		{"240.0.0.0/4", "reserved", true},
		{"255.255.255.255/32", "broadcast", true},
		{"::/128", "unspecified", true},
		{"::1/128", "loopback", false},
		{"::/96", "IPv4-compatible", true},
		{"::ffff:0:0:0/96", "IPv4-translated", true},
		{"64:ff9b::/96", "NAT64", true},
		{"64:ff9b:1::/48", "local NAT64", true},
		{"100::/64", "discard", true},
		{"100:0:0:1::/64", "dummy", true},
		{"2001::/23", "IETF protocol assignments (Teredo, ORCHID)", true},
		{"2002::/16", "6to4", true},
		{"2620:4f:8000::/48", "AS112", false},
		{"5f00::/16", "segment routing", true},
		{"fc00::/7", "unique local", false},
		{"fd00:ec2::254/128", "cloud metadata", true},
		{"fd20:ce::254/128", "cloud metadata", true},
		{"fe80::/10", "link-local", true},
		{"fec0::/10", "site-local", true},
		{"ff00::/8", "multicast", true},
	}
}

// A Guard says which addresses may be dialled.
type Guard struct{ ranges []within }

type within struct {
	netip.Prefix
	block
}

// New makes the Guard, from the registries above.
func New() Guard {
	var g Guard
	for _, b := range blocks() {
		g.ranges = append(g.ranges, within{netip.MustParsePrefix(b.prefix), b})
	}
	return g
}

// Check refuses a forbidden address with the name of its range. pinned means
// that the person wrote the address themselves, which opens
// what is private but not what is never right. The most specific range speaks.
func (g Guard) Check(addr netip.Addr, pinned bool) error {
	if !addr.IsValid() {
		return &Forbidden{addr, "invalid"}
	}
	if addr.Zone() != "" {
		return &Forbidden{addr, "scoped to an interface"}
	}
	addr = addr.Unmap()
	if pinned && addr == netip.IPv6Loopback() {
		return nil // also inside ::/96, which is never right otherwise
	}
	for _, r := range g.ranges {
		if r.Contains(addr) && (r.never || !pinned) {
			return &Forbidden{addr, r.what}
		}
	}
	if addr.Is6() && !pinned && addr.As16()[0]>>5 != 1 {
		return &Forbidden{addr, "outside 2000::/3, the only range given out for use on the internet"}
	}
	return nil
}

// A Forbidden is an address that no rule can open. Its words go to the
// program inside, so they name the range but not the address: which one a name
// has on the host's network is no one's business there. The record has it.
type Forbidden struct {
	Addr netip.Addr
	What string
}

func (e *Forbidden) Error() string { return "the address is forbidden: " + e.What }

// Detail is for the record.
func (e *Forbidden) Detail() string { return "address " + e.Addr.String() }
