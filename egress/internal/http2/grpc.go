package http2

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"cloister/egress/internal/errtext"
	"cloister/egress/internal/refusal"
)

// isGRPC reports whether a request is a call, whose client knows its own codes better
// than those of HTTP.
func isGRPC(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "application/grpc")
}

// answerGRPC tells a refusal as the status of a call.
func (m *message) answerGRPC(r refusal.Refusal) {
	h := m.w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(errtext.GRPCStatus(r.Status)))
	h.Set("Grpc-Message", errtext.GRPCText(strings.TrimSpace(r.Text())))
	m.w.WriteHeader(http.StatusOK)
}

// resetGRPC ends a call whose stream the server reset with what that means (gRPC over
// HTTP2, Errors): the border's own reset has one code for all.
func (m *message) resetGRPC(err error) bool {
	reset, is := errors.AsType[http2.StreamError](err)
	if !is || !isGRPC(m.r.Header) {
		return false
	}
	code, known := map[http2.ErrCode]int{
		http2.ErrCodeRefusedStream: errtext.GRPCDown, http2.ErrCodeEnhanceYourCalm: errtext.GRPCExhausted,
		http2.ErrCodeCancel: errtext.GRPCCanceled,
	}[reset.Code]
	switch {
	case !known:
		code = errtext.GRPCInternal
	case code == errtext.GRPCCanceled && m.late():
		code = errtext.GRPCDeadline
	}
	h, prefix := m.w.Header(), http.TrailerPrefix
	if !m.Answered {
		h.Set("Content-Type", "application/grpc")
		prefix = ""
	}
	h.Set(prefix+"Grpc-Status", strconv.Itoa(code))
	h.Set(prefix+"Grpc-Message", errtext.GRPCText("the server reset the stream: "+reset.Code.String()))
	if !m.Answered {
		m.w.WriteHeader(http.StatusOK)
	}
	return true
}

// late reports whether the time that the call was given is over.
func (m *message) late() bool {
	most, ok := errtext.GRPCTimeout(m.r.Header.Get("Grpc-Timeout"))
	return ok && time.Since(m.Start) >= most
}
