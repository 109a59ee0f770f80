package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"cloister/egress/internal/guard"
	"cloister/internal/authority"
)

type answers []netip.Addr

func (a answers) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) { return a, nil }

// Private answers are dropped, public ones beside them stay (NW-40).
func TestTargets(t *testing.T) {
	d := &Dialer{Guard: guard.New(), Resolver: answers{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:127.0.0.1"),
		netip.MustParseAddr("::ffff:1.1.1.1"), netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2606:4700::1"),
	}}
	a, err := authority.Parse("mixed.test", 443)
	if err != nil {
		t.Fatal(err)
	}
	got, pinned, err := d.targets(t.Context(), a)
	if err != nil || pinned || len(got) != 2 || got[0].String() != "1.1.1.1:443" || got[1].String() != "[2606:4700::1]:443" {
		t.Errorf("got %v, %v, %v", got, pinned, err)
	}
	d.Resolver = answers{netip.MustParseAddr("192.168.0.1")}
	if _, _, err := d.targets(t.Context(), a); !Forbidden(err) || strings.Contains(err.Error(), "192.168") {
		t.Errorf("all private: %v", err)
	}
	d.Resolver = answers{}
	if _, _, err := d.targets(t.Context(), a); err == nil {
		t.Error("no address is no error")
	}
}

// The re-check before connect(2) is a second wall: it holds when the first is
// taken away.
func TestDialRecheck(t *testing.T) {
	d := &Dialer{Guard: guard.New()}
	_, err := d.one(t.Context(), netip.MustParseAddrPort("127.0.0.1:9"), false, 1)
	if _, ok := errors.AsType[*guard.Forbidden](err); !ok {
		t.Fatalf("got %v", err)
	}
}

func TestPins(t *testing.T) {
	tests := []struct {
		key, value string
		ok         bool
	}{
		{"api.test", "127.0.0.1:8443", true},
		{"API.test:443", "[::1]:8443", true},
		{"203.0.113.7", "10.0.0.1", true},
		{"2001:db8::1", "10.0.0.1", true},
		{"api.test", "localhost:80", false},
		{"api.test", "127.0.0.1:0", false},
		{"api.test", "169.254.169.254:80", false},
		{"api.test", "[fe80::1%eth0]:80", false},
		{"api.test", "0.0.0.0:80", false},
		{"*.test", "127.0.0.1:80", false},
		{"api.test:x", "127.0.0.1:80", false},
	}
	for _, tt := range tests {
		if _, err := ParsePins(map[string]string{tt.key: tt.value}, guard.New()); (err == nil) != tt.ok {
			t.Errorf("%s: %s: %v", tt.key, tt.value, err)
		}
	}
}

// What speaks with servers beside an engine is given the same addresses.
func TestAddressesOfOthers(t *testing.T) {
	ask := table{"both.example": {"127.0.0.1", "93.184.216.34"}, "near.example": {"10.0.0.5", "::ffff:127.0.0.1"}, "far.example": {"93.184.216.34"}}
	hosts := map[string]string{"near.example": "10.0.0.5", "pinned.example:8443": "127.0.0.1:1"}
	for name, want := range map[string]string{
		"both.example": "[93.184.216.34]", "far.example": "[93.184.216.34]", "169.254.169.254": "forbidden", "10.0.0.5": "forbidden", "93.184.216.34": "[93.184.216.34]", "none.example": "error",
		"near.example": "[10.0.0.5]",
	} {
		a, err := authority.Parse(name, 443)
		if err != nil {
			t.Fatal(err)
		}
		for _, pinned := range []bool{true, false} {
			with := hosts
			if !pinned {
				with = nil
				if name == "near.example" {
					want = "forbidden"
				}
			}
			addrs, err := Addresses(t.Context(), with, ask, a)
			got := fmt.Sprint(addrs)
			switch {
			case Forbidden(err):
				got = "forbidden"
			case err != nil:
				got = "error"
			}
			if got != want {
				t.Errorf("%s, pinned %v: %s (%v), want %s", name, pinned, got, err, want)
			}
		}
	}
}

type table map[string][]string

func (t table) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, a := range t[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return out, nil
}
