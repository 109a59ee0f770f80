// Package authority gives a network destination its one canonical spelling.
//
// It promises that two spellings of the same destination become equal values,
// that a value which exists is safe to match, to resolve, to dial, to send as
// SNI or Host, to write in a log; whatever has a second meaning somewhere (an
// octal address, a NUL, a zone, a full-width digit) is refused with a reason.
//
// It does NOT resolve names, judge addresses (a loopback Authority is a valid
// Authority) or know any policy.
//
// Most readers want Parse, ParseHostPort or ParsePattern.
package authority

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const (
	maxName  = 253 // RFC 1035 2.3.4, without the root's dot
	maxLabel = 63
	// maxInput bounds the work done for a name before it is known to be one.
	// Every character of a 253-byte name may have come in as a 4-byte rune,
	// with ignorable runes between.
	maxInput = 2048
)

// Authority is a canonical host with a port. It is comparable; the zero value
// is invalid and equals no destination.
type Authority struct {
	host string
	addr netip.Addr // valid only where the host is an address
	port uint16
}

// Parse makes the canonical Authority of a host without port: a name (with or
// without the root's dot, in any case, as Unicode or as punycode) or an IP
// address without brackets. Port 0 is refused.
func Parse(host string, port uint16) (Authority, error) {
	if port == 0 {
		return Authority{}, fmt.Errorf("host %s: port 0 is no destination", quote(host))
	}
	name, addr, err := canonical(host)
	if err != nil {
		return Authority{}, fmt.Errorf("host %s: %w", quote(host), err)
	}
	return Authority{host: name, addr: addr, port: port}, nil
}

// ParseHostPort parses "name", "name:port", "[v6]" or "[v6]:port". Where no
// port is written, defaultPort counts; with a defaultPort of 0 it must be.
func ParseHostPort(s string, defaultPort uint16) (Authority, error) {
	host, port, err := splitHostPort(s, defaultPort)
	if err != nil {
		return Authority{}, fmt.Errorf("destination %s: %w", quote(s), err)
	}
	return Parse(host, port)
}

// FromAddrPort makes the Authority of an address. A v4-mapped v6 address is
// the v4 address; a zone is refused, because it names an interface of one host.
func FromAddrPort(ap netip.AddrPort) (Authority, error) {
	switch {
	case !ap.Addr().IsValid():
		return Authority{}, errors.New("address: not valid")
	case ap.Addr().Zone() != "":
		return Authority{}, fmt.Errorf("address %s: a zone is not allowed", quote(ap.Addr().String()))
	case ap.Port() == 0:
		return Authority{}, fmt.Errorf("address %s: port 0 is no destination", ap.Addr())
	}
	addr := ap.Addr().Unmap()
	return Authority{host: addr.String(), addr: addr, port: ap.Port()}, nil
}

// Host is the canonical host: lower-case ASCII name without the root's dot, or
// an address as netip prints it (v6 without brackets).
func (a Authority) Host() string { return a.host }

// Port is the port, never 0 in a valid Authority.
func (a Authority) Port() uint16 { return a.port }

// Addr is the address, and whether the host is one.
func (a Authority) Addr() (netip.Addr, bool) { return a.addr, a.addr.IsValid() }

// IsValid reports whether the value came from a successful parse.
func (a Authority) IsValid() bool { return a.port != 0 }

// WithPort is the same host at another port; port 0 gives the zero Authority.
func (a Authority) WithPort(port uint16) Authority {
	if !a.IsValid() || port == 0 {
		return Authority{}
	}
	a.port = port
	return a
}

// String is "host:port", "[v6]:port", or "" for the zero value. ParseHostPort
// of it gives the same value again.
func (a Authority) String() string {
	if !a.IsValid() {
		return ""
	}
	return net.JoinHostPort(a.host, strconv.Itoa(int(a.port)))
}

func splitHostPort(s string, defaultPort uint16) (string, uint16, error) {
	var host, port string
	var has bool
	switch {
	case strings.HasPrefix(s, "["):
		inner, rest, closed := strings.Cut(s[1:], "]")
		if !closed {
			return "", 0, errors.New("bracket is not closed")
		}
		if !strings.Contains(inner, ":") {
			return "", 0, errors.New("only an IPv6 address is written in brackets")
		}
		if rest != "" && rest[0] != ':' {
			return "", 0, errors.New("only a port may follow the bracket")
		}
		host, has = inner, rest != ""
		port = strings.TrimPrefix(rest, ":")
	case strings.Count(s, ":") > 1:
		return "", 0, errors.New("an IPv6 address is written in brackets: [2001:db8::1]:443")
	default:
		host, port, has = strings.Cut(s, ":")
	}
	if !has {
		if defaultPort == 0 {
			return "", 0, errors.New("port is missing")
		}
		return host, defaultPort, nil
	}
	n, err := ParsePort(port)
	return host, n, err
}

// ParsePort parses a port in its only spelling: decimal digits without sign or
// leading zero, 1 to 65535.
func ParsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
		return 0, fmt.Errorf("port %s is not a number from 1 to 65535", quote(s))
	}
	return uint16(n), nil
}

// canonical gives the one spelling of a host; addr is valid for an address.
func canonical(host string) (string, netip.Addr, error) {
	if host == "" {
		return "", netip.Addr{}, errors.New("is empty")
	}
	if len(host) > maxInput {
		return "", netip.Addr{}, fmt.Errorf("longer than %d bytes", maxName)
	}
	ascii, err := scan(host)
	if err != nil {
		return "", netip.Addr{}, err
	}
	if strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return "", netip.Addr{}, errors.New("has a colon but is no IPv6 address (write the port separately)")
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	name := host
	if ascii {
		name = strings.ToLower(name)
	} else if name, err = toASCII(name); err != nil {
		return "", netip.Addr{}, err
	}
	if numericEnd(strings.TrimSuffix(name, ".")) {
		return numeric(host, name)
	}
	name = strings.TrimSuffix(name, ".")
	if err := checkName(name); err != nil {
		return "", netip.Addr{}, err
	}
	return name, netip.Addr{}, nil
}

// scan refuses the bytes that end, split or re-root a host in some program
// (NUL in C, CR and LF in HTTP, % in URLs and zones), and reports whether the
// rest is ASCII. They are named first because their reason is the clearest.
func scan(host string) (ascii bool, err error) {
	if !utf8.ValidString(host) {
		return false, errors.New("is not UTF-8")
	}
	ascii = true
	for i := range len(host) {
		switch c := host[i]; {
		case c < 0x20 || c == 0x7f:
			return false, fmt.Errorf("has the control character 0x%02x", c)
		case c == ' ':
			return false, errors.New("has a space")
		case c == '%':
			return false, errors.New("has a percent sign (no escapes, no zones)")
		case c >= 0x80:
			ascii = false
		}
	}
	return ascii, nil
}

// toASCII maps a Unicode name by UTS 46 (non-transitional: ß stays ß, as
// browsers do). Hyphens are checked by checkName, since the rule against "--"
// in places 3 and 4 would refuse names in wide use (r3---sn-….googlevideo.com).
func toASCII(name string) (string, error) {
	profile := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.CheckHyphens(false))
	out, err := profile.ToASCII(name)
	if err != nil {
		return "", errors.New("is not a valid international name")
	}
	return out, nil
}

// numericEnd is WHATWG's "ends in a number": some resolver would read such a
// host as an IPv4 address, so it must be one in the strict spelling or nothing.
func numericEnd(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func numeric(written, name string) (string, netip.Addr, error) {
	addr, err := netip.ParseAddr(name)
	if err != nil || written != name {
		return "", netip.Addr{}, errors.New("is a number but no IPv4 address in four plain decimal parts")
	}
	return name, addr, nil
}

// checkName holds a lower-case ASCII name to letters, digits, hyphens. The
// underscore is refused: no host that is dialled needs it (RFC 952, 1123), and
// it would let service labels such as _dmarc pass for hosts.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("longer than %d bytes", maxName)
	}
	puny := false
	for rest, more := name, true; more; {
		var label string
		label, rest, more = strings.Cut(rest, ".")
		if err := checkLabel(label); err != nil {
			return err
		}
		puny = puny || strings.HasPrefix(label, "xn--")
	}
	if !puny {
		return nil
	}
	// Punycode must be the encoding that its own decoding gives, else one
	// name would have two spellings.
	again, err := toASCII(name)
	if err != nil || again != name {
		return errors.New("is not valid punycode")
	}
	return nil
}

func checkLabel(label string) error {
	switch {
	case label == "":
		return errors.New("has an empty label")
	case len(label) > maxLabel:
		return fmt.Errorf("has a label longer than %d bytes", maxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("has a label that starts or ends with a hyphen")
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("has %q, which is no letter, digit or hyphen", rune(c))
		}
	}
	return nil
}

// quote shows hostile input in a message: ASCII only, bounded.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "…"
	}
	return strconv.QuoteToASCII(s)
}
