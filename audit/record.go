package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxRecord bounds one line in bytes, newline included. Append shortens
	// what a hostile client made long; a reader refuses longer lines.
	MaxRecord = 64 << 10
	// maxField bounds each free-text field before escaping, which makes at
	// most 6 bytes of one.
	maxField = 2 << 10

	hashHead = `,"hash":"`
	hashTail = `"}`
	hashLen  = len(hashHead) + 2*sha256.Size + len(hashTail)
)

// genesis is the Prev of the first record.
const genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// encode appends the line of e, whose Seq and Prev are set, to b, and gives its hash.
func encode(b []byte, e *Event, key *signer) (out []byte, hash string, err error) {
	e.V = Version
	e.Key, e.Hash = key.id, ""
	from := len(b)
	for _, bound := range []int{maxField, maxField / 8} {
		shorten(e, bound)
		if b, err = appendEvent(b[:from], e); err != nil {
			return nil, "", fmt.Errorf("encode record: %w", err)
		}
		if len(b)-from+hashLen < MaxRecord {
			break
		}
	}
	// The empty hash is last: without it stands what is hashed.
	b = append(b[:len(b)-len(hashHead)-len(hashTail)], '}')
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], key.sum(b[from:]))
	hash = string(text[:])
	b = append(append(append(b[:len(b)-1], hashHead...), hash...), hashTail...)
	b = append(b, '\n')
	if len(b)-from > MaxRecord {
		return nil, "", fmt.Errorf("encode record: %d bytes, at most %d", len(b)-from, MaxRecord)
	}
	return b, hash, nil
}

// digest is the hash of a line of a record that is not keyed, whose hash member is
// cut out: body and the closing brace.
func digest(body []byte) string {
	sum := sha256.New()
	sum.Write(body)
	sum.Write([]byte{'}'})
	return hex.EncodeToString(sum.Sum(nil))
}

// spelled is s with bytes that are no UTF-8 as Go quotes them. JSON has no such bytes: all of
// them would be recorded as one character, and a path as that of another file.
func spelled(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if size := utf8.RuneLen(r); r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+size])
		}
	}
	return b.String()
}

// shorten spells and cuts every field that someone else may have written.
func shorten(e *Event, bound int) {
	for _, s := range []*string{
		&e.Session, &e.SessionID, &e.Project, &e.Agent, &e.Action, &e.Resource,
		&e.Verdict, &e.Rule, &e.Reason, &e.Policy, &e.Host, &e.Via, &e.Method, &e.Path, &e.Isolation, &e.Arguments,
	} {
		if *s = spelled(*s); len(*s) > bound {
			cut := bound
			for cut > 0 && !utf8.RuneStart((*s)[cut]) {
				cut--
			}
			*s = fmt.Sprintf("%s[%d bytes more]", (*s)[:cut], len(*s)-cut)
		}
	}
}

// errors of decode, distinguished by no caller: they become the reason of a
// BadRecord.
var (
	errNoHash   = errors.New("no hash member at the end of the line")
	errHash     = errors.New("the hash does not fit the line")
	errNotPlain = errors.New("a raw control byte")
)

// decode reads one line without its newline and checks its own hash. It does
// not know the neighbours, so it checks no chain.
func (k *keyring) decode(line []byte) (Event, error) {
	var e Event
	if len(line)+1 > MaxRecord {
		return e, fmt.Errorf("longer than %d bytes", MaxRecord)
	}
	body, hash, err := split(line)
	if err != nil {
		return e, err
	}
	for _, c := range line {
		if c < 0x20 || c == 0x7f {
			return e, errNotPlain
		}
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, fmt.Errorf("not JSON: %w", err)
	}
	// The hash covers the bytes; a line that says its members twice could
	// still mean something else than it shows.
	if e.Hash != string(hash) {
		return Event{}, errHash
	}
	if err := k.check(&e, body, hash); err != nil {
		return Event{}, err
	}
	return e, nil
}

func split(line []byte) (body, hash []byte, err error) {
	at := len(line) - hashLen
	if at < 1 {
		return nil, nil, errNoHash
	}
	tail := line[at:]
	if string(tail[:len(hashHead)]) != hashHead || string(tail[len(tail)-len(hashTail):]) != hashTail {
		return nil, nil, errNoHash
	}
	return line[:at], tail[len(hashHead) : len(tail)-len(hashTail)], nil
}
