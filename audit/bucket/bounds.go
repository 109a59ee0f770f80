package bucket

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// within bounds what one request takes.
func (c *Copy) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, cmp.Or(c.Timeout, longest), errHangs)
}

// longest is how long a request takes unless said otherwise: 8 MiB at 28 kB/s.
const longest = 5 * time.Minute

// errHangs says that a request was given up.
var errHangs = errors.New("the bucket does not answer in time")

// why is an error, with why its request was given up.
func why(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errHangs) {
		return errors.Join(errHangs, err)
	}
	return err
}

// watch ends a context when the bucket did not come with an object for the time of a request. The
// pages of a listing may be empty, and each lead to the next. The time stands still from hold to wait.
func (c *Copy) watch(ctx context.Context) (_ context.Context, hold, wait, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	most := cmp.Or(c.Timeout, longest)
	t := time.AfterFunc(most, func() { cancel(errHangs) })
	return ctx, func() { t.Stop() }, func() { t.Reset(most) }, func() { t.Stop(); cancel(nil) }
}

// mostAnswer bounds an answer, in bytes: an object has 8 MiB, and a page of a listing 1,000 names.
const mostAnswer = 2 * mostPiece

// Bounded gives an error where an answer has more bytes than any that is of use: a client of S3
// reads a listing whole before it looks at it.
func Bounded(next http.RoundTripper) http.RoundTripper { return bounded{next} }

type bounded struct{ next http.RoundTripper }

// RoundTrip bounds the body.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil {
		resp.Body = &answer{resp.Body, mostAnswer}
	}
	return resp, err
}

type answer struct {
	io.ReadCloser

	left int
}

// Read gives an error instead of what is too much.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if a.left -= n; a.left < 0 {
		return 0, errors.New("the bucket's answer is too long")
	}
	return n, err
}
