package authority_test

import (
	"strings"
	"testing"

	"cloister/internal/authority"
)

func TestPatternMatch(t *testing.T) { // NW-18
	tests := []struct {
		pattern string
		yes, no []string
	}{
		{
			"allowed.test",
			[]string{"allowed.test", "ALLOWED.test", "allowed.test.", "allowed\u3002test"},
			[]string{
				"evil-allowed.test", "evilallowed.test", "allowed.test.evil.test", "allowedXtest", "sub.allowed.test",
				"test", "", "allowed.test\x00", "allowed.test..", "\u0430llowed.test",
			},
		},
		{
			"*.allowed.test",
			[]string{"a.allowed.test", "a.b.c.allowed.test", "A.Allowed.Test."},
			[]string{
				"allowed.test", "evilallowed.test", "evil-allowed.test", "a.allowed.test.evil.test", ".allowed.test",
				"allowedXtest", "a.allowedXtest", "*.allowed.test", "a\x00.allowed.test", "a_b.allowed.test",
			},
		},
		{"*.bücher.example", []string{"a.xn--bcher-kva.example", "a.BÜCHER.example"}, []string{"xn--bcher-kva.example", "bücher.example"}},
		{"203.0.113.7", []string{"203.0.113.7", "::ffff:203.0.113.7"}, []string{"203.0.113.07", "203.0.113.70", "203.0.113.7.", "x.203.0.113.7"}},
		{"2001:db8::1", []string{"2001:db8:0::1", "2001:DB8::1"}, []string{"2001:db8::2", "[2001:db8::1]"}},
	}
	for _, tt := range tests {
		t.Run(tt.pattern, func(t *testing.T) {
			p, err := authority.ParsePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range tt.yes {
				if !p.Match(h) {
					t.Errorf("does not match %q", h)
				}
			}
			for _, h := range tt.no {
				if p.Match(h) {
					t.Errorf("matches %q", h)
				}
			}
		})
	}
	var zero authority.Pattern
	if zero.Match("allowed.test") || zero.Match("") || zero.String() != "" {
		t.Fatal("the zero pattern matches")
	}
}

func TestPatternRefuses(t *testing.T) {
	tests := []struct{ in, reason string }{
		{"*", "every host"},
		{"*.test", "too broad"},
		{"*.com", "too broad"},
		{"*.com.", "too broad"},
		{"*.COM", "too broad"},
		{"*.co.uk", "too broad"},
		{"*.CO.UK", "too broad"},
		{"*.localhost", "too broad"},
		{"*.xn--p1ai", "too broad"},
		{"*.рф", "too broad"},
		{"*.anything.ck", "too broad"},
		{"**.example.com", "star"},
		{"*.*.example.com", "star"},
		{"a*.example.com", "star"},
		{"*example.com", "star"},
		{"foo.*.com", "star"},
		{"example.*", "star"},
		{"*.", "empty"},
		{"", "empty"},
		{".example.com", `"*.example.com"`},
		{"https://example.com/x", `"example.com"`},
		{"example.com/x", "path"},
		{"user@example.com", "path, query or user"},
		{"example.com:443", "port"},
		{"*.example.com:443", "port"},
		{"*.203.0.113.7", "cidr"},
		{"*.2001:db8::1", "cidr"},
		{"203.0.113.0/24", "path"},
		{"127.1", "IPv4"},
		{"*.0x7f.1", "IPv4"},
		{"exa mple.com", "space"},
		{"example.com\n", "control"},
		{"example.com\x00", "control"},
		{"a_b.com", "no letter"},
		{"*." + strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 60), "longer"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			p, err := authority.ParsePattern(tt.in)
			if err == nil {
				t.Fatalf("accepted as %q", p)
			}
			if !strings.Contains(err.Error(), tt.reason) {
				t.Fatalf("reason %q does not say %q", err, tt.reason)
			}
			if p != (authority.Pattern{}) {
				t.Fatalf("refused, but gave %q", p)
			}
		})
	}
}

func TestPatternHostingDomainsAreAllowed(t *testing.T) {
	for _, s := range []string{"*.githubusercontent.com", "*.github.io", "*.blob.core.windows.net", "*.s3.amazonaws.com"} {
		if _, err := authority.ParsePattern(s); err != nil {
			t.Error(err)
		}
	}
}

func TestBroadPattern(t *testing.T) {
	tests := []struct{ in, yes, no string }{
		{"*", "a.test", "a..test"},
		{"*", "203.0.113.7", "127.1"},
		{"*.zip", "evil.zip", "zip"},
		{"*.test", "a.b.test", "203.0.113.7"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			p, err := authority.ParseBroadPattern(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if !p.Match(tt.yes) || p.Match(tt.no) || !p.Wildcard() || p.String() != tt.in {
				t.Fatalf("%q: %q %v, %q %v", p, tt.yes, p.Match(tt.yes), tt.no, p.Match(tt.no))
			}
		})
	}
}

// FuzzPattern: an accepted pattern is canonical, and its matching is the
// grammar's by an independent count of labels.
func FuzzPattern(f *testing.F) {
	for _, p := range []string{"allowed.test", "*.allowed.test", "*", "*.com", "203.0.113.7", "*.bücher.example", "::1"} {
		for _, h := range []string{"a.allowed.test", "allowed.test", "evil-allowed.test", "127.1", "203.0.113.7"} {
			f.Add(p, h)
		}
	}
	f.Fuzz(func(t *testing.T, s, h string) {
		p, err := authority.ParseBroadPattern(s)
		if err != nil {
			return
		}
		again, err := authority.ParseBroadPattern(p.String())
		if err != nil || again != p {
			t.Fatalf("%q: %q is not canonical: %v", s, p, err)
		}
		a, err := authority.Parse(h, 1)
		if err != nil {
			if p.Match(h) {
				t.Fatalf("%q matches %q, which is no host", p, h)
			}
			return
		}
		if got, want := p.Match(h), naive(p.String(), a); got != want || p.Match(a.Host()) != want {
			t.Fatalf("%q on %q: %v, want %v", p, a.Host(), got, want)
		}
	})
}

func naive(pattern string, a authority.Authority) bool {
	if pattern == "*" || pattern == a.Host() {
		return true
	}
	base, wild := strings.CutPrefix(pattern, "*.")
	if _, isAddr := a.Addr(); !wild || isAddr {
		return false
	}
	have, want := strings.Split(a.Host(), "."), strings.Split(base, ".")
	if len(have) <= len(want) {
		return false
	}
	return strings.Join(have[len(have)-len(want):], ".") == base
}
