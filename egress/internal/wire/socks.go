package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// SOCKS5 reply codes, RFC 1928 6.
const (
	SOCKSGranted       = 0
	SOCKSFailure       = 1
	SOCKSNotAllowed    = 2
	SOCKSUnreachable   = 4
	SOCKSRefused       = 5
	SOCKSTimeout       = 6 // "TTL expired": what clients print for a timeout
	SOCKSNoCommand     = 7
	SOCKSNoAddressType = 8
)

const (
	socksVersion = 5
	socksNoAuth  = 0
	socksConnect = 1
)

// A SOCKSError is a request that is refused with a reply code.
type SOCKSError struct {
	Code byte
	Msg  string
}

func (e *SOCKSError) Error() string { return "socks5: " + e.Msg }

// ParseSOCKSGreeting reads the client's methods; n bytes belong to it. Only
// "no authentication" is offered: the socket is the cloister's own.
func ParseSOCKSGreeting(b []byte) (n int, noAuth bool, err error) {
	if len(b) < 1 {
		return 0, false, ErrShort
	}
	if b[0] != socksVersion {
		return 0, false, fmt.Errorf("socks5: version %d", b[0])
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return 0, false, ErrShort
	}
	n = 2 + int(b[1])
	if slices.Contains(b[2:n], socksNoAuth) {
		return n, true, nil
	}
	return n, false, nil
}

// ParseSOCKSRequest reads a CONNECT request; n bytes belong to it. Host is a
// name as sent (not checked for being one) or the text of an address.
func ParseSOCKSRequest(b []byte) (n int, host string, port uint16, err error) {
	if len(b) < 5 {
		return 0, "", 0, ErrShort
	}
	if b[0] != socksVersion || b[2] != 0 {
		return 0, "", 0, errors.New("socks5: malformed request")
	}
	var size int
	addr := b[4:]
	switch b[3] {
	case 1:
		size = 4
	case 3:
		size, addr = int(b[4]), b[5:]
	case 4:
		size = 16
	default:
		return 0, "", 0, &SOCKSError{Code: SOCKSNoAddressType, Msg: fmt.Sprintf("address type %d", b[3])}
	}
	if len(addr) < size+2 {
		return 0, "", 0, ErrShort
	}
	n = len(b) - len(addr) + size + 2
	port = uint16(addr[size])<<8 | uint16(addr[size+1])
	if b[1] != socksConnect {
		return n, "", 0, &SOCKSError{Code: SOCKSNoCommand, Msg: fmt.Sprintf("command %d", b[1])}
	}
	if b[3] == 3 {
		return n, string(addr[:size]), port, nil
	}
	ip, _ := netip.AddrFromSlice(addr[:size])
	return n, ip.String(), port, nil
}

// AppendSOCKSReply writes a reply. The bound address is all zero: there is
// none that would mean anything inside.
func AppendSOCKSReply(b []byte, code byte) []byte {
	return append(b, socksVersion, code, 0, 1, 0, 0, 0, 0, 0, 0)
}
