// Package bodies looks at the body of a request as it passes, for a method or rights that it
// asks for.
//
// The promise: a body that is refused is broken off before its end, so that no server has the whole.
//
// It judges nothing: whoever makes a [Reader] says who does.
//
// Most readers want [Reader].
package bodies

import (
	"errors"
	"io"
	"net/http"

	"cloister/egress/verdict"
	"cloister/internal/reading"
)

// Odd refuses a body for what it may ask for.
func Odd(err error) error {
	return &verdict.Refused{Status: http.StatusUnsupportedMediaType, Verdict: verdict.Answer{
		Effect: "deny", Reason: "a body whose method cannot be judged: " + err.Error(),
		Hints: []string{"send it with the method that is meant, and no _method"},
	}}
}

// ErrGives says what a body gives.
var ErrGives = errors.New("it says who may use the object (acl)")

// Giving refuses a body for what it may give to others.
func Giving(err error) error {
	return &verdict.Refused{Status: http.StatusForbidden, Verdict: verdict.Answer{
		Effect: "deny", Reason: "a body that a rule about the objects of one bucket does not cover: " + err.Error(),
		Hints: []string{"leave acl out; contents in which the word stands are taken with uploadType=media, or resumable"},
	}}
}

// A Reader is a body that is looked at as it passes. What may be part of a method
// waits for the rest of it.
type Reader struct {
	From  io.Reader
	Form  *reading.Form
	Judge func(method string) error
	Odd   func(error) error // refuses what cannot be read
	ready []byte            // may go
	held  []byte            // waits
	err   error
}

func (r *Reader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && r.err == nil {
		held := copy(p, r.held)
		if held == len(p) { // smaller than a method: a reader that wants the first bytes only
			p = make([]byte, held+512)
			copy(p, r.held)
		}
		n, err := r.From.Read(p[held:])
		keep, found := r.Form.Write(p[held:held+n], r.Judge)
		if found == nil && errors.Is(err, io.EOF) {
			keep, found = 0, r.Form.End(r.Judge)
		}
		if found != nil {
			if _, refused := errors.AsType[*verdict.Refused](found); !refused {
				found = r.Odd(found)
			}
			r.ready, r.held, r.err = nil, nil, found
			return 0, found
		}
		all := p[:held+n]
		keep = min(keep, len(all))
		r.ready, r.held = append(r.ready[:0], all[:len(all)-keep]...), append(r.held[:0], all[len(all)-keep:]...)
		r.err = err
	}
	if n := copy(p, r.ready); n > 0 {
		r.ready = r.ready[n:]
		return n, nil
	}
	return 0, r.err
}
