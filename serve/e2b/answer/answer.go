// Package answer is how the server's two sides answer E2B's SDKs: errors with their status, and JSON.
//
// The promise: an error of the server's own, which may name its folders, is in the log and reaches no client; what
// comes back of a client's words is bounded, and a client that does not read or write ends its request.
//
// It answers no request by itself: serve/e2b and serve/e2b/envd do.
//
// Most readers want [Fail] and [JSON].
package answer

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"cloister/serve"
	"cloister/serve/database"
	"cloister/serve/files"
	"cloister/serve/snapshots"
)

// maxBody bounds a request of the control API.
const maxBody = 1 << 20

// Clip bounds what of a client's words comes back to it.
func Clip(s string) string { return s[:min(len(s), 64)] }

// Same compares two secrets in a time that tells nothing of them.
func Same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Stall is how long a client may leave a piece of a file unread.
const Stall = 60 * time.Second

// Status is an error with its HTTP status.
type Status struct {
	Code int
	Text string
}

// Error makes a [Status].
func Error(code int, text string) error { return &Status{code, text} }

func (e *Status) Error() string { return e.Text }

// StatusOf is an error as the SDKs read it.
func StatusOf(err error) (int, string) {
	var (
		own     *Status
		over    *serve.Over
		bad     *serve.BadRequest
		stopped *serve.NotRunning
		file    *files.Error
		away    *database.Away
		many    *snapshots.Over
		bucket  *snapshots.Away
		refused *snapshots.Bad
	)
	switch {
	case errors.As(err, &own):
		return own.Code, own.Text
	case errors.Is(err, serve.ErrNone):
		return http.StatusNotFound, "sandbox not found"
	case errors.As(err, &over):
		return http.StatusTooManyRequests, over.What
	case errors.As(err, &bad):
		return http.StatusBadRequest, bad.What
	case errors.As(err, &stopped):
		return http.StatusConflict, stopped.Error()
	case errors.As(err, &file):
		return fileStatus(file.Code), file.Message
	case errors.As(err, &away):
		return http.StatusServiceUnavailable, outOfTouch
	case errors.As(err, &many):
		return http.StatusTooManyRequests, many.What
	case errors.As(err, &bucket):
		return http.StatusServiceUnavailable, noBucket
	case errors.As(err, &refused):
		return http.StatusInternalServerError, notKept
	}
	return http.StatusInternalServerError, Hidden
}

// outOfTouch is what a client learns where the servers' database cannot be asked.
const outOfTouch = "the server is out of touch with its database: try again"

// What a client learns of the bucket of snapshots.
const (
	noBucket = "the server cannot use its bucket of snapshots: try again"
	notKept  = "the snapshot is refused: the server's bucket does not give back what was kept"
)

// Hidden is what a client learns of an error of the server's own, which may name its folders.
const Hidden = "the server could not carry this out; its log says why"

// Failed answers a tenant's request with an error, and writes down one of the server's own.
func Failed(log *slog.Logger, w http.ResponseWriter, r *http.Request, tenant string, err error) {
	code, _ := StatusOf(err)
	if code == http.StatusInternalServerError || code == http.StatusServiceUnavailable {
		log.Error("answer a request", "tenant", tenant, "method", r.Method, "path", Clip(r.URL.Path), "error", err)
	}
	Fail(w, err)
}

func fileStatus(c files.Code) int {
	switch c {
	case files.NotFound:
		return http.StatusNotFound
	case files.Full:
		return http.StatusInsufficientStorage
	case files.Denied:
		return http.StatusForbidden
	case files.Invalid, files.Exists, files.TooMuch:
		return http.StatusBadRequest
	case files.Failed:
	}
	return http.StatusInternalServerError
}

// Fail answers with an error. The SDKs read the code in the body.
func Fail(w http.ResponseWriter, err error) {
	code, text := StatusOf(err)
	JSON(w, code, map[string]any{"code": code, "message": text})
}

// JSON answers with one document.
func JSON(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"code":500,"message":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(Stall)) // not every writer has one
	w.WriteHeader(code)
	_, _ = w.Write(text) // the client has gone
}

// Read reads a request's JSON.
func Read(w http.ResponseWriter, r *http.Request, v any) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(Stall)) // not every writer has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = rc.SetReadDeadline(time.Time{}) // it would end the context of the request
	if err != nil {
		return Error(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is cut off, or over %d bytes", maxBody))
	}
	if len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return Error(http.StatusBadRequest, "the request is not as it should be: "+err.Error())
	}
	return nil
}
