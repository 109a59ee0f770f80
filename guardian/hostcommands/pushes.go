package hostcommands

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cloister/git"
)

const (
	// maxWaiting bounds the objects, in bytes, of all pushes of a session about which a person is asked at once.
	maxWaiting = 4 << 30
	// turnWithin bounds the wait for the push before: whoever sends one may stop in the midst of it.
	turnWithin = 2 * time.Minute
)

// pushes bounds what those of one session take together. git is bounded for each (room git): the objects of one are
// taken and looked at at a time, so that all have the memory and the processor that one may have. Its zero value has
// none.
type pushes struct {
	once    sync.Once
	one     chan struct{}
	waiting atomic.Int64
}

// turn waits until no other push is taken, and gives what lets the next one.
func (p *pushes) turn(ctx context.Context) (over func(), err error) {
	p.once.Do(func() { p.one = make(chan struct{}, 1) })
	late := time.NewTimer(turnWithin)
	defer late.Stop()
	select {
	case p.one <- struct{}{}:
		return sync.OnceFunc(func() { <-p.one }), nil
	case <-late.C:
		return nil, errors.New("another push of this session is on its way still, and one is taken at a time: try again")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wait counts objects in that lie there while a person is asked, and gives what counts them out.
func (p *pushes) wait(n int64) (over func(), err error) {
	over = sync.OnceFunc(func() { p.waiting.Add(-n) })
	if sum := p.waiting.Add(n); sum > maxWaiting {
		over()
		return nil, fmt.Errorf("the pushes of this session that wait for an answer would have %d bytes of objects, "+
			"and have %d at the most: push less at once", sum, int64(maxWaiting))
	}
	return over, nil
}

// push serves a push. asks says that a person may be asked about it: the next is taken meanwhile.
func (w *gitwork) push(ctx context.Context, depot *git.Depot, decide git.Decide, asks bool) error {
	over, err := w.s.pushes.turn(ctx)
	if err != nil {
		return err
	}
	defer over()
	if !asks {
		return depot.Push(ctx, w.conn.Stdin(ctx), w.conn.Stdout(), decide)
	}
	gone := func() {}
	defer func() { gone() }()
	return depot.Push(ctx, w.conn.Stdin(ctx), w.conn.Stdout(), func(ctx context.Context, p *git.Push) error {
		counted, err := w.s.pushes.wait(p.Bytes)
		if err != nil {
			return err
		}
		gone = counted
		over()
		return decide(ctx, p)
	})
}
