package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"cloister/internal/termsafe"
)

// appendEvent writes e as its tags say and termsafe.JSON leaves it, up to its
// hash, which is empty and last. It is written out here because each request that is
// read waits for two records: by reflection they took 6 of its 80 µs. A test holds it
// to json.Marshal, member by member.
func appendEvent(b []byte, e *Event) ([]byte, error) {
	w := members{b: append(b, '{')}
	w.number("v", int64(e.V))
	w.number("seq", int64(e.Seq)) //nolint:gosec // as many records there are never
	w.name("time")
	w.b = append(e.Time.AppendFormat(append(w.b, '"'), time.RFC3339Nano), '"')
	w.text("session", e.Session)
	w.some("session_id", e.SessionID)
	w.text("project", e.Project)
	w.text("agent", e.Agent)
	w.text("kind", e.Kind)
	w.text("action", e.Action)
	w.text("resource", e.Resource)
	w.text("verdict", e.Verdict)
	w.text("rule", e.Rule)
	w.text("reason", e.Reason)
	w.text("policy", e.Policy)
	if e.Suppressed > 0 {
		w.number("suppressed", int64(e.Suppressed)) //nolint:gosec // as above
	}
	w.some("host", e.Host)
	w.due("port", int(e.Port), e.Kind == NetDNS || e.Kind == NetConnect || e.Kind == HTTPRequest)
	w.some("via", e.Via)
	w.known("bytes_up", e.BytesUp)
	w.known("bytes_down", e.BytesDown)
	w.known("duration_ms", e.DurationMS)
	w.some("method", e.Method)
	w.some("path", e.Path)
	w.due("status", e.Status, e.Kind == HTTPRequest)
	w.some("digest", e.Digest)
	w.some("arguments", e.Arguments)
	w.some("isolation", e.Isolation)
	w.due("pid", e.PID, false)
	if e.ExitStatus != nil {
		w.number("exit_status", int64(*e.ExitStatus))
	}
	w.text("prev", e.Prev)
	w.text("hash", e.Hash)
	return append(w.b, '}'), w.err
}

// members writes the members of an object.
type members struct {
	b   []byte
	err error
}

func (w *members) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), `":`...)
}

func (w *members) number(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
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
	w.name(name)
	if !plain(s) {
		text, err := json.Marshal(s)
		if err != nil {
			w.err = fmt.Errorf("encode %s: %w", name, err)
		}
		w.b = append(w.b, termsafe.JSON(text)...)
		return
	}
	w.b = append(append(append(w.b, '"'), s...), '"')
}

// plain says whether no byte of s needs an escape, in JSON or in HTML.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
