package authority_test

import (
	"net/netip"
	"strings"
	"testing"

	"cloister/internal/authority"
)

func TestParseGivesOneForm(t *testing.T) { // NW-20
	label63 := strings.Repeat("a", 63)
	name253 := strings.Repeat(label63+".", 3) + strings.Repeat("b", 61)
	tests := []struct{ name, in, want string }{
		{"plain", "example.com", "example.com"},
		{"upper case", "EXAMPLE.Com", "example.com"},
		{"root's dot", "example.com.", "example.com"},
		{"both", "Example.COM.", "example.com"},
		{"one label", "localhost", "localhost"},
		{"hyphens in 3 and 4", "r3---sn-apo3.googlevideo.com", "r3---sn-apo3.googlevideo.com"},
		{"digits first", "3com.com", "3com.com"},
		{"label of digits inside", "1.2.3.example.com", "1.2.3.example.com"},
		{"unicode", "bücher.example", "xn--bcher-kva.example"},
		{"unicode upper case", "BÜCHER.example", "xn--bcher-kva.example"},
		{"unicode decomposed", "bu\u0308cher.example", "xn--bcher-kva.example"},
		{"punycode", "xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"punycode upper case", "XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"homograph stays itself", "\u0430pple.com", "xn--pple-43d.com"},
		{"ideographic dot", "example\u3002com", "example.com"},
		{"ideographic root's dot", "example.com\u3002", "example.com"},
		{"full-width letters", "\uff45xample.com", "example.com"},
		{"soft hyphen", "exam\u00adple.com", "example.com"},
		{"sharp s is not ss", "stra\u00dfe.example", "xn--strae-oqa.example"},
		{"longest label", label63 + ".example", label63 + ".example"},
		{"longest name", name253, name253},
		{"longest name with dot", name253 + ".", name253},
		{"v4", "203.0.113.7", "203.0.113.7"},
		{"v6", "2001:DB8:0:0::1", "2001:db8::1"},
		{"v4-mapped", "::ffff:203.0.113.7", "203.0.113.7"},
		{"v4-mapped in hex", "::FFFF:cb00:7107", "203.0.113.7"},
		{"nat64 is not v4", "64:ff9b::203.0.113.7", "64:ff9b::cb00:7107"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := authority.Parse(tt.in, 443)
			if err != nil {
				t.Fatal(err)
			}
			if a.Host() != tt.want || a.Port() != 443 || !a.IsValid() {
				t.Fatalf("got %q port %d, want %q", a.Host(), a.Port(), tt.want)
			}
			again, err := authority.ParseHostPort(a.String(), 0)
			if err != nil || again != a {
				t.Fatalf("ParseHostPort(%q) = %v, %v", a.String(), again, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, in, reason string }{
		{"empty", "", "empty"},
		{"root", ".", "empty label"},
		// NW-16
		{"octal", "0177.0.0.1", "no IPv4 address"},
		{"hex part", "0x7f.1", "no IPv4 address"},
		{"hex whole", "0x7f000001", "no IPv4 address"},
		{"hex upper case", "0X7F.0.0.1", "no IPv4 address"},
		{"hex last", "127.0.0.0x1", "no IPv4 address"},
		{"hex empty", "0x", "no IPv4 address"},
		{"decimal", "2130706433", "no IPv4 address"},
		{"two parts", "127.1", "no IPv4 address"},
		{"three parts", "127.0.1", "no IPv4 address"},
		{"zero", "0", "no IPv4 address"},
		{"leading zeros", "127.000.000.001", "no IPv4 address"},
		{"five parts", "1.2.3.4.5", "no IPv4 address"},
		{"part over 255", "1.2.3.256", "no IPv4 address"},
		{"v4 with root's dot", "127.0.0.1.", "no IPv4 address"},
		{"numeric last label", "example.1", "no IPv4 address"},
		{"full-width digits", "\uff11\uff12\uff17.0.0.1", "no IPv4 address"},
		{"circled digits", "\u2460\u2461\u2466.0.0.1", "no IPv4 address"},
		{"full-width dot in v4", "127\uff0e0\uff0e0\uff0e1", "no IPv4 address"},
		{"ideographic dot in v4", "127\u30020\u30020\u30021", "no IPv4 address"},
		{"soft hyphen in v4", "127.0.0.\u00ad1", "no IPv4 address"},
		{"mathematical digits", "\U0001d7cf\U0001d7d0\U0001d7d5.1", "no IPv4 address"},
		// NW-19
		{"NUL", "evil.test\x00.allowed.test", "control character 0x00"},
		{"escaped NUL", "evil.test%00.allowed.test", "percent"},
		{"CR", "a\rb.test", "control character 0x0d"},
		{"LF", "allowed.test\n", "control character 0x0a"},
		{"TAB", "a\tb.test", "control character 0x09"},
		{"DEL", "a\x7fb.test", "control character 0x7f"},
		{"space", "allowed.test ", "space"},
		{"no-break space", "allowed\u00a0.test", "international"},
		{"C1 control", "a\u0085b.test", "international"},
		{"bidi override", "a\u202eb.test", "international"},
		{"broken UTF-8", "a\xffb.test", "UTF-8"},
		{"overlong NUL", "a\xc0\x80.test", "UTF-8"},
		// NW-20
		{"empty label", "a..test", "empty label"},
		{"empty first label", ".a.test", "empty label"},
		{"two root's dots", "a.test..", "empty label"},
		{"ASCII and ideographic root's dot", "a.test.\u3002", "empty label"},
		{"label over 63", strings.Repeat("a", 64) + ".test", "longer than 63"},
		{"name over 253", strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("b", 62), "longer than 253"},
		{"huge", strings.Repeat("a.", 1<<20), "longer than 253"},
		{"unicode label over 63 as punycode", strings.Repeat("ü", 63) + ".test", "longer than 63"},
		{"punycode of ASCII", "xn--abc-.test", "hyphen"},
		{"punycode of nothing", "xn--.test", "hyphen"},
		{"punycode garbage", "xn--99999999999.test", "punycode"},
		{"punycode of upper case", "xn--bcher-2pa.test", "punycode"},
		{"punycode of full-width", "xn--cher-zra77610b.test", "punycode"},
		{"punycode of decomposed", "xn--bucher-xyd.test", "punycode"},
		{"punycode of soft hyphen", "xn--a-vca1v.test", "punycode"},
		{"symbol that maps to a slash", "\u2100.test", "international"},
		{"zero-width joiner", "a\u200db.test", "international"},
		// not LDH
		{"underscore", "_dmarc.test", "no letter"},
		{"underscore inside", "a_b.test", "no letter"},
		{"hyphen first", "-a.test", "hyphen"},
		{"hyphen last", "a-.test", "hyphen"},
		{"star", "*.test", "no letter"},
		{"slash", "a.test/b", "no letter"},
		{"backslash", "a.test\\b", "no letter"},
		{"user", "user@a.test", "no letter"},
		{"host and port", "a.test:443", "colon"},
		{"zone", "fe80::1%eth0", "percent"},
		{"brackets", "[::1]", "colon"},
		{"v6 garbage", "1::2::3", "colon"},
		{"v4 octal mapped", "::ffff:0177.0.0.1", "colon"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := authority.Parse(tt.in, 443)
			if err == nil {
				t.Fatalf("accepted as %q", a)
			}
			if !strings.Contains(err.Error(), tt.reason) {
				t.Fatalf("reason %q does not say %q", err, tt.reason)
			}
			if a != (authority.Authority{}) || a.IsValid() {
				t.Fatalf("refused, but gave %v", a)
			}
			if len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x00\r\n\t") {
				t.Fatalf("message not fit to print: %q", err)
			}
		})
	}
}

func TestParseHostPort(t *testing.T) { // NW-22's spellings
	tests := []struct {
		in   string
		def  uint16
		want string // "" is refused
	}{
		{"a.test:443", 0, "a.test:443"},
		{"a.test", 443, "a.test:443"},
		{"a.test:8443", 443, "a.test:8443"},
		{"A.TEST.:443", 0, "a.test:443"},
		{"[::1]:80", 0, "[::1]:80"},
		{"[::1]", 80, "[::1]:80"},
		{"[::ffff:127.0.0.1]:80", 0, "127.0.0.1:80"},
		{"127.0.0.1:80", 0, "127.0.0.1:80"},
		{"a.test:65535", 0, "a.test:65535"},
		{"a.test", 0, ""},
		{"", 443, ""},
		{":443", 0, ""},
		{"a.test:", 443, ""},
		{"a.test:0", 0, ""},
		{"a.test:65536", 0, ""},
		{"a.test:00443", 0, ""},
		{"a.test:+443", 0, ""},
		{"a.test:-1", 0, ""},
		{"a.test: 443", 0, ""},
		{"a.test:443 ", 0, ""},
		{"a.test:https", 0, ""},
		{"a.test:0x1bb", 0, ""},
		{"a.test:4_43", 0, ""},
		{"a.test:\uff14\uff14\uff13", 0, ""},
		{"a.test:443:80", 0, ""},
		{"::1", 80, ""},
		{"::1:80", 80, ""},
		{"[::1", 80, ""},
		{"[::1]80", 80, ""},
		{"[::1]:", 80, ""},
		{"[a.test]:80", 80, ""},
		{"[127.0.0.1]:80", 80, ""},
		{"[fe80::1%25eth0]:80", 80, ""},
		{"user@a.test:443", 0, ""},
		{"https://a.test:443", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			a, err := authority.ParseHostPort(tt.in, tt.def)
			if (err == nil) != (tt.want != "") || a.String() != tt.want {
				t.Fatalf("got %q, %v; want %q", a, err, tt.want)
			}
		})
	}
}

func TestFromAddrPort(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"v4", "192.0.2.1:80", "192.0.2.1:80"},
		{"v4-mapped", "[::ffff:192.0.2.1]:80", "192.0.2.1:80"},
		{"v6", "[2001:db8::1]:80", "[2001:db8::1]:80"},
		{"zone", "[fe80::1%lo]:80", ""},
		{"port 0", "192.0.2.1:0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := authority.FromAddrPort(netip.MustParseAddrPort(tt.in))
			if (err == nil) != (tt.want != "") || a.String() != tt.want {
				t.Fatalf("got %q, %v; want %q", a, err, tt.want)
			}
			if tt.want == "" {
				return
			}
			parsed, err := authority.ParseHostPort(tt.in, 0)
			if err != nil || parsed != a {
				t.Fatalf("by text %v (%v), by address %v: not the same value", parsed, err, a)
			}
		})
	}
	if _, err := authority.FromAddrPort(netip.AddrPort{}); err == nil {
		t.Fatal("the zero AddrPort was accepted")
	}
}

func TestAuthorityValue(t *testing.T) {
	var zero authority.Authority
	if zero.IsValid() || zero.String() != "" || zero.WithPort(80).IsValid() {
		t.Fatalf("the zero value is something: %q", zero)
	}
	a, err := authority.Parse("a.test", 443)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.WithPort(80).String(); got != "a.test:80" {
		t.Fatalf("WithPort: %q", got)
	}
	if a.WithPort(0).IsValid() {
		t.Fatal("WithPort(0) is valid")
	}
	if _, ok := a.Addr(); ok {
		t.Fatal("a name has an address")
	}
	v4, err := authority.Parse("::ffff:192.0.2.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	if addr, ok := v4.Addr(); !ok || addr != netip.MustParseAddr("192.0.2.1") {
		t.Fatalf("Addr: %v %v", addr, ok)
	}
	if allocs := testing.AllocsPerRun(100, func() { _, _ = authority.Parse("api.example.com", 443) }); allocs != 0 {
		t.Fatalf("%v allocations for a name that is canonical already", allocs)
	}
}

// FuzzParse: whatever is accepted is canonical, safe to print, the only
// spelling of itself, and never an address by any reading but its own.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"example.com", "EXAMPLE.com.", "bücher.example", "xn--bcher-kva.example", "a\u3002b", "exam\u00adple.com",
		"127.0.0.1", "0177.0.0.1", "0x7f.1", "127.1", "2130706433", "\uff11\uff12\uff17.0.0.1", "::1", "::ffff:1.2.3.4",
		"fe80::1%eth0", "a\x00b", "a%00b", "a_b", "-a", "a..b", ".", "xn--", "\u0430pple.com", "[::1]", "a:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := authority.Parse(s, 443)
		if err != nil {
			if a.IsValid() {
				t.Fatalf("%q: refused, yet valid", s)
			}
			return
		}
		h := a.Host()
		again, err := authority.Parse(h, 443)
		if err != nil || again != a {
			t.Fatalf("%q: %q is not canonical: %v %v", s, h, again, err)
		}
		if dotted, err := authority.Parse(h+".", 443); err == nil && dotted != a {
			t.Fatalf("%q: with root's dot %v", s, dotted)
		}
		round, err := authority.ParseHostPort(a.String(), 0)
		if err != nil || round != a {
			t.Fatalf("%q: %q does not round-trip: %v", s, a, err)
		}
		addr, isAddr := a.Addr()
		if parsed, err := netip.ParseAddr(h); (err == nil) != isAddr || parsed != addr {
			t.Fatalf("%q: %q is an address: %v, netip says %v", s, h, isAddr, err)
		}
		if len(h) == 0 || len(h) > 253 {
			t.Fatalf("%q: %d bytes", s, len(h))
		}
		for _, c := range []byte(h) {
			ldh := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.'
			if !ldh && !(isAddr && c == ':') {
				t.Fatalf("%q: %q has %q", s, h, c)
			}
		}
	})
}

func FuzzParseHostPort(f *testing.F) {
	for _, s := range []string{"a.test:443", "a.test", "[::1]:80", "[::1", "::1", "a:00443", "a:65536", "a:1:2", ":80", "[a]:1", "a.test:+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := authority.ParseHostPort(s, 443)
		if err != nil {
			return
		}
		again, err := authority.ParseHostPort(a.String(), 0)
		if err != nil || again != a {
			t.Fatalf("%q: %q does not round-trip: %v %v", s, a, again, err)
		}
	})
}
