package wire

import (
	"encoding/binary"
	"errors"
	"strings"
)

// The first messages of PostgreSQL's protocol (its documentation, 55.7), by the
// code behind their length.
const (
	PGStartup = 3 << 16 // and the minor version
	PGCancel  = 80877102
	PGSSL     = 80877103
	PGGSS     = 80877104
	// maxPGStartup is the server's own MAX_STARTUP_PACKET_LENGTH.
	maxPGStartup = 10000
)

// A PGFirst is one of the messages that can come first.
type PGFirst struct {
	Code     uint32
	User     string
	Database string
}

// ParsePGFirst reads the message at the beginning of b, and how long it is.
// ErrShort asks for more.
func ParsePGFirst(b []byte) (PGFirst, int, error) {
	if len(b) < 8 {
		return PGFirst{}, 0, ErrShort
	}
	n := int(binary.BigEndian.Uint32(b))
	m := PGFirst{Code: binary.BigEndian.Uint32(b[4:])}
	switch {
	case n < 8 || n > maxPGStartup:
		return m, 0, errors.New("no first message of PostgreSQL")
	case len(b) < n:
		return m, 0, ErrShort
	}
	body := string(b[8:n])
	switch {
	case m.Code == PGSSL || m.Code == PGGSS:
		if n != 8 {
			return m, 0, errors.New("a request for encryption of another length")
		}
		return m, n, nil
	case m.Code == PGCancel:
		if n < 12 || n > 12+256 {
			return m, 0, errors.New("a request to cancel without a key, or with more")
		}
		return m, n, nil
	case m.Code>>16 != PGStartup>>16:
		return m, 0, errors.New("a version of the protocol other than 3")
	}
	err := m.parameters(body)
	return m, n, err
}

// parameters reads names and values, each with a NUL behind it, and a last NUL.
// The server takes the last of several; so that no one can take another, what
// stands twice is refused.
func (m *PGFirst) parameters(body string) error {
	text, ok := strings.CutSuffix(body, "\x00")
	if !ok {
		return errors.New("a start-up message without its end")
	}
	replication := ""
	seen := map[string]bool{}
	for text != "" {
		name, rest, ok := strings.Cut(text, "\x00")
		value, rest, ok2 := strings.Cut(rest, "\x00")
		switch {
		case !ok || !ok2 || name == "":
			return errors.New("a start-up message with a torn parameter")
		case seen[name]:
			return errors.New("a start-up message with a parameter twice")
		}
		seen[name], text = true, rest
		switch name {
		case "user":
			m.User = value
		case "database":
			m.Database = value
		case "replication":
			replication = strings.ToLower(value)
		}
	}
	if m.User == "" {
		return errors.New("a start-up message without a user")
	}
	if m.Database == "" {
		m.Database = m.User
	}
	switch replication {
	case "", "database", "false", "off", "no", "0":
	default:
		m.Database = "replication" // as pg_hba.conf calls it
	}
	return nil
}

// PlainPGOffer reads the server's message at the beginning of b, and how long it
// is. What it gives is to be passed on: the message, or where it offers ways to log
// in by SASL, that without the ones bound to a TLS connection.
func PlainPGOffer(b []byte) ([]byte, int, error) {
	if len(b) < 5 {
		return nil, 0, ErrShort
	}
	n := 1 + int(binary.BigEndian.Uint32(b[1:]))
	switch {
	case n < 5 || n > maxPGStartup:
		return nil, 0, errors.New("no message of a PostgreSQL server")
	case len(b) < n:
		return nil, 0, ErrShort
	}
	const sasl = 10
	if b[0] != 'R' || n < 9 || binary.BigEndian.Uint32(b[5:]) != sasl {
		return b[:n:n], n, nil
	}
	var names []string
	for name := range strings.SplitSeq(strings.Trim(string(b[9:n]), "\x00"), "\x00") {
		if !strings.HasSuffix(name, "-PLUS") {
			names = append(names, name)
		}
	}
	list := strings.Join(names, "\x00") + "\x00\x00"
	out := binary.BigEndian.AppendUint32([]byte{'R'}, uint32(8+len(list)))
	out = binary.BigEndian.AppendUint32(out, sasl)
	return append(out, list...), n, nil
}

// AppendPGError writes the error that ends a connection before it has begun.
func AppendPGError(b []byte, code, message, detail, hint string) []byte {
	var body []byte
	for _, f := range []struct {
		kind byte
		text string
	}{{'S', "FATAL"}, {'V', "FATAL"}, {'C', code}, {'M', message}, {'D', detail}, {'H', hint}} {
		if f.text != "" {
			body = append(append(append(body, f.kind), strings.ReplaceAll(f.text, "\x00", "?")...), 0)
		}
	}
	body = append(body, 0)
	b = append(b, 'E')
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	return append(b, body...)
}
