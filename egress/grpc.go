package egress

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// gRPC's codes, of those that are told here.
const (
	grpcCanceled  = 1
	grpcDeadline  = 4
	grpcDenied    = 7
	grpcExhausted = 8
	grpcInternal  = 13
	grpcDown      = 14
)

// isGRPC says whether a request is a call, whose client knows its own codes better
// than those of HTTP.
func isGRPC(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/grpc")
}

// answerGRPC tells a refusal as the status of a call.
func (m *message) answerGRPC(r refusal) {
	code := grpcInternal
	switch r.Status {
	case http.StatusForbidden:
		code = grpcDenied
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge:
		code = grpcExhausted
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		code = grpcDown
	}
	h := m.w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(code))
	h.Set("Grpc-Message", grpcText(strings.TrimSpace(r.text())))
	m.w.WriteHeader(http.StatusOK)
}

// grpcText encodes a message (gRPC over HTTP2, Status-Message).
func grpcText(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '%' {
			const digits = "0123456789ABCDEF"
			b.WriteString("%" + digits[c>>4:c>>4+1] + digits[c&15:c&15+1])
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// resetGRPC ends a call whose stream the server reset with what that means (gRPC over
// HTTP2, Errors): the border's own reset has one code for all.
func (m *message) resetGRPC(err error) bool {
	reset, is := errors.AsType[http2.StreamError](err)
	if !is || !isGRPC(m.r.Header) {
		return false
	}
	code, known := map[http2.ErrCode]int{
		http2.ErrCodeRefusedStream: grpcDown, http2.ErrCodeEnhanceYourCalm: grpcExhausted, http2.ErrCodeCancel: grpcCanceled,
	}[reset.Code]
	switch {
	case !known:
		code = grpcInternal
	case code == grpcCanceled && m.late():
		code = grpcDeadline
	}
	h, prefix := m.w.Header(), http.TrailerPrefix
	if !m.answered {
		h.Set("Content-Type", "application/grpc")
		prefix = ""
	}
	h.Set(prefix+"Grpc-Status", strconv.Itoa(code))
	h.Set(prefix+"Grpc-Message", grpcText("the server reset the stream: "+reset.Code.String()))
	if !m.answered {
		m.w.WriteHeader(http.StatusOK)
	}
	return true
}

// late says whether the time that the call was given is over.
func (m *message) late() bool {
	text := m.r.Header.Get("Grpc-Timeout")
	if text == "" {
		return false
	}
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	unit, ok := units[text[len(text)-1]]
	return err == nil && ok && time.Since(m.start) >= time.Duration(n)*unit
}
