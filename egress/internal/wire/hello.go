package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/internal/authority"

	"golang.org/x/crypto/cryptobyte"
)

// A Hello is what a ClientHello says about the server it wants.
type Hello struct {
	// Names are the host_name entries of the server_name extension, as sent.
	Names []string
	// SNI reports whether there is a server_name extension at all.
	SNI bool
	// ALPN are the protocols that the client offers, in its order.
	ALPN []string
	// ECH says that there is an encrypted ClientHello in it, or something of that
	// form: what it names is seen by whoever has the key (RFC 9849).
	ECH bool
}

// Offerable are the protocols that are offered to a server which may speak any: the
// program's, without relatives of HTTP that are not read here.
func (h Hello) Offerable() []string {
	return slices.DeleteFunc(slices.Clone(h.ALPN), func(proto string) bool {
		p := strings.ToLower(proto)
		kin := slices.ContainsFunc([]string{"http/", "h2", "h3", "hq", "spdy"}, func(kin string) bool {
			return strings.HasPrefix(p, kin)
		})
		return kin && proto != "http/1.1" && proto != "h2"
	})
}

// For holds a hello to one name, which is the target's, and gives what it names
// besides. The bytes go out as they are, so only a spelling that every server reads
// alike will do: the name itself in ASCII letters of any case.
func (h Hello) For(target authority.Authority) (other string, err error) {
	_, literal := target.Addr()
	switch {
	case !h.SNI && literal:
		return "", nil
	case !h.SNI:
		return "", errors.New("TLS without server name")
	case len(h.Names) == 0:
		return "", errors.New("TLS with an empty server name")
	case len(h.Names) > 1:
		return strings.Join(h.Names, " "), errors.New("TLS with more than one server name")
	}
	if asciiFold(h.Names[0]) != target.Host() {
		return h.Names[0], errors.New("TLS server name is not the name that was connected to")
	}
	return "", nil
}

// asciiFold lowers A–Z only: Unicode folding would make a Kelvin sign a k.
func asciiFold(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

const (
	recordHandshake   = 22
	typeClientHello   = 1
	extServerName     = 0
	extALPN           = 16
	extECH            = 0xfe0d // RFC 9849
	nameTypeHost      = 0
	maxRecord         = 1 << 14 // RFC 8446 5.1, plaintext
	recordHeader      = 5
	handshakeHeader   = 4
	helloVersionMajor = 3
)

// LooksLikeTLS reports whether b starts as a TLS record with a handshake
// message; ErrShort when two bytes are not there yet. SSLv2 hellos, which have
// no room for a name, do not count as TLS.
func LooksLikeTLS(b []byte) (bool, error) {
	switch {
	case len(b) == 0:
		return false, ErrShort
	case b[0] != recordHandshake:
		return false, nil
	case len(b) == 1:
		return false, ErrShort
	}
	return b[1] == helloVersionMajor, nil
}

// A HelloScan reassembles one ClientHello from records as they come in. It
// looks at each byte once, so a peer that sends one byte at a time buys no
// more work than one that sends all.
type HelloScan struct {
	off int    // where the next record starts in the stream
	msg []byte // handshake bytes so far
}

// Next reads on in buf, which holds the stream from its first byte and may
// have grown since the last call. ErrShort asks for more; any other error is
// final.
func (s *HelloScan) Next(buf []byte) (Hello, error) {
	for {
		if want, ok := s.want(); ok && len(s.msg) >= want {
			if len(s.msg) > want {
				return Hello{}, errors.New("clienthello: a second message in the same record")
			}
			return parseHello(s.msg[handshakeHeader:])
		}
		rest := buf[s.off:]
		if s.off >= MaxHello {
			return Hello{}, fmt.Errorf("clienthello: longer than %d bytes", MaxHello)
		}
		if len(rest) < recordHeader {
			return Hello{}, checkRecordStart(rest)
		}
		if err := checkRecordStart(rest); !errors.Is(err, ErrShort) {
			return Hello{}, err
		}
		n := int(rest[3])<<8 | int(rest[4])
		if n == 0 || n > maxRecord {
			return Hello{}, fmt.Errorf("clienthello: record of %d bytes", n)
		}
		if len(rest) < recordHeader+n {
			return Hello{}, ErrShort
		}
		s.msg = append(s.msg, rest[recordHeader:recordHeader+n]...)
		s.off += recordHeader + n
		if s.msg[0] != typeClientHello {
			return Hello{}, fmt.Errorf("clienthello: first message has type %d", s.msg[0])
		}
		if want, ok := s.want(); ok && want > MaxHello {
			return Hello{}, fmt.Errorf("clienthello: longer than %d bytes", MaxHello)
		}
	}
}

// want is the length of the message with its header, once that is known.
func (s *HelloScan) want() (int, bool) {
	if len(s.msg) < handshakeHeader {
		return 0, false
	}
	return handshakeHeader + (int(s.msg[1])<<16 | int(s.msg[2])<<8 | int(s.msg[3])), true
}

// checkRecordStart refuses a wrong record as early as its first byte shows it;
// ErrShort means nothing is wrong yet.
func checkRecordStart(b []byte) error {
	if len(b) > 0 && b[0] != recordHandshake {
		return fmt.Errorf("clienthello: record of type %d", b[0])
	}
	if len(b) > 1 && b[1] != helloVersionMajor {
		return fmt.Errorf("clienthello: record version %d", b[1])
	}
	return ErrShort
}

var errHello = errors.New("clienthello: malformed")

func parseHello(body cryptobyte.String) (Hello, error) {
	var session, suites, compressions, extensions cryptobyte.String
	if !body.Skip(2+32) || // legacy_version, random
		!body.ReadUint8LengthPrefixed(&session) || len(session) > 32 ||
		!body.ReadUint16LengthPrefixed(&suites) || len(suites) < 2 || len(suites)%2 != 0 ||
		!body.ReadUint8LengthPrefixed(&compressions) || compressions.Empty() {
		return Hello{}, errHello
	}
	if body.Empty() {
		return Hello{}, nil // before RFC 3546 there were no extensions
	}
	if !body.ReadUint16LengthPrefixed(&extensions) || !body.Empty() {
		return Hello{}, errHello
	}
	return parseExtensions(extensions)
}

func parseExtensions(extensions cryptobyte.String) (Hello, error) {
	var h Hello
	seen := map[uint16]bool{}
	for !extensions.Empty() {
		var id uint16
		var data cryptobyte.String
		if !extensions.ReadUint16(&id) || !extensions.ReadUint16LengthPrefixed(&data) {
			return Hello{}, errHello
		}
		if seen[id] { // RFC 8446 4.2: at most one of a kind
			return Hello{}, fmt.Errorf("clienthello: extension %d twice", id)
		}
		seen[id] = true
		var err error
		switch id {
		case extServerName:
			h.SNI = true
			h.Names, err = parseServerNames(data)
		case extALPN:
			h.ALPN, err = parseALPN(data)
		case extECH, 0xfe08, 0xfe09, 0xfe0a, 0xfe0b, 0xfe0c, 0xff02, 0xff03, 0xffce: // and its drafts
			h.ECH = true
		}
		if err != nil {
			return Hello{}, err
		}
	}
	return h, nil
}

// parseALPN reads a list of protocol names (RFC 7301 3.1).
func parseALPN(data cryptobyte.String) ([]string, error) {
	var list cryptobyte.String
	if !data.ReadUint16LengthPrefixed(&list) || !data.Empty() || list.Empty() {
		return nil, errHello
	}
	var names []string
	for !list.Empty() {
		var name cryptobyte.String
		if !list.ReadUint8LengthPrefixed(&name) || name.Empty() {
			return nil, errHello
		}
		names = append(names, string(name))
	}
	return names, nil
}

func parseServerNames(data cryptobyte.String) ([]string, error) {
	var list cryptobyte.String
	if !data.ReadUint16LengthPrefixed(&list) || !data.Empty() {
		return nil, errHello
	}
	var names []string
	for !list.Empty() {
		var kind uint8
		var name cryptobyte.String
		if !list.ReadUint8(&kind) || !list.ReadUint16LengthPrefixed(&name) {
			return nil, errHello
		}
		if kind != nameTypeHost { // no other kind was ever given a meaning
			return nil, fmt.Errorf("clienthello: server name of kind %d", kind)
		}
		names = append(names, string(name))
	}
	return names, nil
}
