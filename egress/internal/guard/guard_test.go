package guard_test

import (
	"net/netip"
	"testing"

	"cloister/egress/internal/guard"
)

func TestGuard(t *testing.T) {
	tests := []struct {
		addr   string
		free   bool // may be dialled when a name resolves to it
		pinned bool // may be dialled when the person wrote it
	}{
		{"1.1.1.1", true, true},
		{"192.0.1.1", true, true},
		{"203.0.113.9", true, true},
		{"100.63.255.255", true, true},
		{"172.32.0.1", true, true},
		{"223.255.255.255", true, true},
		{"2606:4700::1111", true, true},
		{"2001:db8::1", true, true},
		{"2001:200::1", true, true},
		{"127.0.0.1", false, true},
		{"127.255.255.255", false, true},
		{"10.1.2.3", false, true},
		{"172.16.0.1", false, true},
		{"172.31.255.255", false, true},
		{"192.168.1.1", false, true},
		{"100.64.0.1", false, true},
		{"100.127.255.255", false, true},
		{"198.18.0.1", false, true},
		{"198.19.255.255", false, true},
		{"::1", false, true},
		{"fc00::1", false, true},
		{"fd12:3456::1", false, true},
		{"0.0.0.0", false, false},
		{"0.1.2.3", false, false},
		{"169.254.169.254", false, false},
		{"169.254.170.2", false, false},
		{"100.100.100.200", false, false},
		{"168.63.129.16", false, false},
		{"192.0.0.192", false, false},
		{"192.88.99.1", false, false},
		{"224.0.0.1", false, false},
		{"239.255.255.255", false, false},
		{"240.0.0.1", false, false},
		{"255.255.255.255", false, false},
		{"::", false, false},
		{"::10.0.0.1", false, false},
		{"64:ff9b::1.1.1.1", false, false},
		{"64:ff9b:1::1", false, false},
		{"100::1", false, false},
		{"2001::1", false, false},
		{"2001:1ff::1", false, false},
		{"2002:a00:1::", false, false},
		{"fd00:ec2::254", false, false},
		{"fd20:ce::254", false, false},
		{"fe80::1", false, false},
		{"fec0::1", false, false},
		{"ff02::1", false, false},
		{"4000::1", false, true}, // not given out; a person may know better
		{"5f00::1", false, false},
		{"fe80::1%eth0", false, false},
		{"2606:4700::1111%eth0", false, false},
	}
	g := guard.New()
	for _, tt := range tests {
		t.Run(tt.addr, func(t *testing.T) {
			addr := netip.MustParseAddr(tt.addr)
			if err := g.Check(addr, false); (err == nil) != tt.free {
				t.Errorf("resolved: %v", err)
			}
			if err := g.Check(addr, true); (err == nil) != tt.pinned {
				t.Errorf("pinned: %v", err)
			}
			if addr.Is4() { // written as v6 it is the same address
				mapped := netip.AddrFrom16(addr.As16())
				if err := g.Check(mapped, false); (err == nil) != tt.free {
					t.Errorf("mapped: %v", err)
				}
			}
		})
	}
}
