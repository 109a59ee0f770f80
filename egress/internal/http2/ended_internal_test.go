package http2

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"cloister/egress/internal/request"
	"cloister/egress/internal/stream"
)

// A program that sends more of a body than it said breaks the body off first; the library
// ends the context of its stream a moment later. Whoever is asked in between says the same.
func TestABrokenBodyIsTheProgramsEnd(t *testing.T) {
	tests := map[string]struct {
		body   io.ReadCloser
		closes bool // this side reads no more, and then the body fails
		want   string
	}{
		"more than was said":  {io.NopCloser(iotest.ErrReader(errors.New("more than declared"))), false, "the program ended the request"},
		"closed on this side": {io.NopCloser(iotest.ErrReader(errors.New("closed"))), true, "the server's answer: the stream broke"},
		"whole":               {io.NopCloser(strings.NewReader("")), false, "the server's answer: the stream broke"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://a.test/", tc.body)
			if err != nil {
				t.Fatal(err)
			}
			m := &message{Request: request.Request{Stream: &stream.Stream{}}, r: r,
				sent: &meter{ReadCloser: tc.body, spend: func(int64) error { return nil }}}
			if tc.closes {
				_ = m.sent.Close()
			}
			_, _ = io.ReadAll(m.sent)
			b, ok := errors.AsType[*request.Broken](m.End(errors.New("reset")))
			if !ok || b.Reason != tc.want || b.Silent != (tc.want == "the program ended the request") {
				t.Errorf("ended by %+v, not by %q", b, tc.want)
			}
		})
	}
}
