package inject

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"cloister/egress/verdict"
	"cloister/secret"
	"cloister/secret/inject/unpack"
)

// response searches the answer for the values of secrets.
func (e *edit) response(m *verdict.Message) error {
	if e.scrub = e.s.Scrubber(); e.scrub == nil {
		return nil
	}
	m.Header.Map(func(_, value string) string {
		text, _ := e.scrub.Text(value)
		return text
	})
	if m.Length() == 0 || m.Status == http.StatusSwitchingProtocols || e.http.Method == http.MethodHead {
		return nil
	}
	codings := tokens(m.Header.Values("Content-Encoding"))
	if len(codings) == 0 {
		m.SetBody(&scrubReader{from: m.Body(), scrub: e.scrub.Stream()}, m.Length())
		return nil
	}
	open, err := e.s.memory.Reader(e.ctx, codings, m.Body())
	if errors.Is(err, unpack.ErrCoding) && !e.s.Bound(m.Authority) {
		return nil // nothing of ours was sent there
	}
	if err != nil {
		return fmt.Errorf("an answer that cannot be searched for secrets: %w", err)
	}
	m.Header.Del("Content-Encoding")
	m.SetBody(&scrubReader{from: open, scrub: e.scrub.Stream()}, -1)
	return nil
}

func (e *edit) trailer(h *verdict.Header) {
	if e.scrub == nil {
		return
	}
	h.Map(func(_, value string) string {
		text, _ := e.scrub.Text(value)
		return text
	})
}

// A scrubReader is a body without the values. What may be the beginning of one
// waits for the next bytes, nothing else does.
type scrubReader struct {
	from  io.Reader
	scrub *secret.Scrub
	ready []byte
	buf   []byte
	err   error
}

func (r *scrubReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.buf == nil {
			r.buf = make([]byte, 16<<10)
		}
		n, err := r.from.Read(r.buf)
		r.ready = r.scrub.Write(r.ready[:0], r.buf[:n])
		if err != nil {
			r.err = err
			if errors.Is(err, io.EOF) {
				r.ready = r.scrub.Flush(r.ready)
			}
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// tokens are the words of a list in fields, lower case.
func tokens(values []string) []string {
	var out []string
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.ToLower(strings.TrimSpace(word)); word != "" && word != "identity" {
				out = append(out, word)
			}
		}
	}
	return out
}
