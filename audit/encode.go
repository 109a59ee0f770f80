package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloister/internal/termsafe"
)

// appendEvent writes e as its tags say and termsafe.JSON leaves it, up to its
// hash, which is empty and last. It is written out here because each request that is
// read waits for two records: by reflection they took 6 of its 80 µs. A test holds it
// to json.Marshal, member by member.
func appendEvent(b []byte, e *Event) ([]byte, error) {
	w := members{b: b}
	w.number(`{"v":`, int64(e.V))
	w.number(`,"seq":`, int64(e.Seq)) // as many records there are never
	w.b = append(e.Time.AppendFormat(append(w.b, `,"time":"`...), time.RFC3339Nano), '"')
	w.text(`,"session":`, e.Session)
	w.some(`,"session_id":`, e.SessionID)
	w.text(`,"project":`, e.Project)
	w.text(`,"agent":`, e.Agent)
	w.text(`,"kind":`, e.Kind)
	w.text(`,"action":`, e.Action)
	w.text(`,"resource":`, e.Resource)
	w.text(`,"verdict":`, e.Verdict)
	w.text(`,"rule":`, e.Rule)
	w.text(`,"reason":`, e.Reason)
	w.text(`,"policy":`, e.Policy)
	if e.Suppressed > 0 {
		w.number(`,"suppressed":`, int64(e.Suppressed))
	}
	w.some(`,"host":`, e.Host)
	w.due(`,"port":`, int(e.Port), e.Kind == NetDNS || e.Kind == NetConnect || e.Kind == HTTPRequest)
	w.some(`,"via":`, e.Via)
	w.known(`,"bytes_up":`, e.BytesUp)
	w.known(`,"bytes_down":`, e.BytesDown)
	w.known(`,"duration_ms":`, e.DurationMS)
	w.some(`,"method":`, e.Method)
	w.some(`,"path":`, e.Path)
	w.due(`,"status":`, e.Status, e.Kind == HTTPRequest)
	w.some(`,"digest":`, e.Digest)
	w.some(`,"arguments":`, e.Arguments)
	w.some(`,"isolation":`, e.Isolation)
	w.due(`,"pid":`, e.PID, false)
	if e.ExitStatus != nil {
		w.number(`,"exit_status":`, int64(*e.ExitStatus))
	}
	w.some(`,"key":`, e.Key)
	w.text(`,"prev":`, e.Prev)
	w.text(`,"hash":`, e.Hash)
	return append(w.b, '}'), w.err
}

// members writes the members of an object, whose names come as they are written.
type members struct {
	b   []byte
	err error
}

func (w *members) number(name string, n int64) {
	w.b = strconv.AppendInt(append(w.b, name...), n, 10)
}

// due writes n where it is known, and 0 where events of this kind always have it:
// a question to DNS has no port, a request has no status before its answer.
func (w *members) due(name string, n int, always bool) {
	if n != 0 || always {
		w.number(name, int64(n))
	}
}

func (w *members) known(name string, n *int64) {
	if n != nil {
		w.number(name, *n)
	}
}

func (w *members) some(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *members) text(name, s string) {
	from := len(w.b)
	w.b = append(append(w.b, name...), '"')
	for left := s; ; {
		n := plain(left)
		w.b = append(w.b, left[:n]...)
		if n == len(left) {
			break
		}
		switch c := left[n]; c {
		case '"', '\\':
			w.b = append(w.b, '\\', c)
		case '<', '>', '&':
			w.b = append(append(w.b, `\u00`...), "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			w.long(from, name, s)
			return
		}
		left = left[n+1:]
	}
	w.b = append(w.b, '"')
}

// long writes what is more than ASCII, or less than text.
func (w *members) long(from int, name, s string) {
	text, err := json.Marshal(s)
	if err != nil {
		w.err = fmt.Errorf("encode %s: %w", strings.Trim(name, `,":`), err)
	}
	w.b = append(append(w.b[:from], name...), termsafe.JSON(text)...)
}

// plain is how many bytes of s need no escape, in JSON or in HTML. It looks at eight
// at once: with a look at each the record of a request took half as long again.
func plain(s string) int {
	const (
		ones = 0x0101010101010101
		tops = 0x80 * ones
	)
	// none is below tops where a byte is 0; what else it says is of no use here.
	none := func(w uint64) uint64 { return (w - ones) & ^w }
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		odd := w | (w + ones)                // 0x7f and above
		odd |= (w - ' '*ones) & ^w           // below the space
		odd |= none((w | 4*ones) ^ '&'*ones) // and the quotation mark
		odd |= none((w | 2*ones) ^ '>'*ones) // and <
		if odd |= none(w ^ '\\'*ones); odd&tops != 0 {
			break
		}
	}
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return i
		}
	}
	return i
}
