// Package connect answers calls of the Connect protocol with JSON, as a server.
//
// [Unary] and [Stream] turn a function into an http.Handler: unary calls with
// application/json, streams of answers with application/connect+json, both with gzip and
// with the deadline that the client sets.
//
// The promise: what a client sends is bounded before it is read or unpacked, an answer
// that has begun ends with the protocol's last message or with the connection, and an
// error reaches the client as the code and the one line that it has. It reads no protocol
// buffers and takes no stream of requests but one after the other ([Input]).
//
// The library connectrpc.com/connect would do the same and more; its descriptors are
// built at every start of cloister, whatever it was started for (docs/decisions/0052).
//
// Most readers want [Stream].
package connect

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// MaxMessage bounds one message, packed and unpacked.
const MaxMessage = 4 << 20

// Code is an error's code on the wire.
type Code string

// The codes that this door uses.
const (
	InvalidArgument    Code = "invalid_argument"
	NotFound           Code = "not_found"
	AlreadyExists      Code = "already_exists"
	PermissionDenied   Code = "permission_denied"
	Unauthenticated    Code = "unauthenticated"
	FailedPrecondition Code = "failed_precondition"
	ResourceExhausted  Code = "resource_exhausted"
	DeadlineExceeded   Code = "deadline_exceeded"
	Canceled           Code = "canceled"
	Unimplemented      Code = "unimplemented"
	Unavailable        Code = "unavailable"
	Internal           Code = "internal"
)

// Error is an error with its code.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{code, fmt.Sprintf(format, args...)}
}

// ErrAbort ends a stream by ending its connection: the client learns that the other end
// is gone, not that the call is over.
var ErrAbort = errors.New("the stream is aborted")

// asError gives an error its code.
func asError(ctx context.Context, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Errorf(DeadlineExceeded, "the deadline of the call has passed")
	case errors.Is(err, context.Canceled):
		return Errorf(Canceled, "the call was cancelled")
	}
	return Errorf(Internal, "the server could not carry this out") // err may name its folders
}

// status is the HTTP status of a unary call's error.
func (c Code) status() int {
	switch c { //nolint:exhaustive // every other code is the server's own fault
	case InvalidArgument, FailedPrecondition:
		return http.StatusBadRequest
	case Unauthenticated:
		return http.StatusUnauthorized
	case PermissionDenied:
		return http.StatusForbidden
	case NotFound:
		return http.StatusNotFound
	case AlreadyExists:
		return http.StatusConflict
	case ResourceExhausted:
		return http.StatusTooManyRequests
	case Canceled:
		return 499
	case Unimplemented:
		return http.StatusNotImplemented
	case Unavailable:
		return http.StatusServiceUnavailable
	case DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// maxDeadline bounds what a client may set: the protocol's ten digits of milliseconds
// are 115 days.
const maxDeadline = 9_999_999_999

// deadline puts the client's deadline on a call. 0 means none.
func deadline(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.Header.Get("Connect-Timeout-Ms")
	if text == "" || text == "0" {
		ctx, cancel := context.WithCancel(r.Context())
		return ctx, cancel, nil
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms < 0 || ms > maxDeadline {
		return nil, nil, Errorf(InvalidArgument, "Connect-Timeout-Ms: %q is not a number of milliseconds", text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(ms)*time.Millisecond)
	return ctx, cancel, nil
}

// accepts checks method and content type, and answers where they are wrong.
func accepts(w http.ResponseWriter, r *http.Request, want string) bool {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return false
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != want {
		w.Header().Set("Accept-Post", want)
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return false
	}
	return true
}

// Unary answers one message with one.
func Unary[In, Out any](f func(ctx context.Context, r *http.Request, in In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !accepts(w, r, "application/json") {
			return
		}
		ctx, cancel, err := deadline(r)
		if err != nil {
			refuse(w, asError(r.Context(), err))
			return
		}
		defer cancel()
		var in In
		if err := readUnary(w, r, &in); err != nil {
			refuse(w, asError(ctx, err))
			return
		}
		out, err := f(ctx, r, in)
		if err != nil {
			if errors.Is(err, ErrAbort) {
				panic(http.ErrAbortHandler)
			}
			refuse(w, asError(ctx, err))
			return
		}
		text, err := json.Marshal(out)
		if err != nil {
			refuse(w, Errorf(Internal, "write the answer: %v", err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall)) // not every writer has one
		_, _ = w.Write(text)                                                      // the client has gone
	})
}

func refuse(w http.ResponseWriter, e *Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.status())
	_ = json.NewEncoder(w).Encode(e) // the client has gone
}

func readUnary(w http.ResponseWriter, r *http.Request, in any) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(stall)) // not every writer has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMessage))
	_ = rc.SetReadDeadline(time.Time{}) // it would end the context of the call
	if err != nil {
		return Errorf(ResourceExhausted, "read the request: %v", err)
	}
	switch coding := r.Header.Get("Content-Encoding"); coding {
	case "", "identity":
	case "gzip":
		if body, err = unpack(body); err != nil {
			return err
		}
	default:
		return Errorf(Unimplemented, "unknown compression %q: supported encodings are gzip", coding)
	}
	return parse(body, in)
}

func parse(body []byte, in any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, in); err != nil {
		return Errorf(InvalidArgument, "read the request: %v", err)
	}
	return nil
}

func unpack(p []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, Errorf(InvalidArgument, "unpack the request: %v", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, MaxMessage+1))
	if err != nil {
		return nil, Errorf(InvalidArgument, "unpack the request: %v", err)
	}
	if len(out) > MaxMessage {
		return nil, Errorf(ResourceExhausted, "a message has more than %d bytes unpacked", MaxMessage)
	}
	return out, nil
}
