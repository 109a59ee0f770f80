// Package filerecord has what a command does with files and programs recorded by the guardian,
// many at once.
//
// The promise: an event that is added is sent within a moment, in order; what a guardian did
// not take, because it restarts, is kept and sent to the next one, so much of it as there is room
// for, and what found no room or no guardian is counted, and the count is sent, or handed
// to the caller. A guardian that died between recording and saying so records some twice.
//
// It connects to nothing, and gives up only in [Batch.Close].
//
// Most readers want [New].
package filerecord

import (
	"context"
	"time"

	"cloister/api"
	"cloister/sandbox"
)

const (
	// atOnce are so many as one request has room for however long they are (40 KiB of paths and
	// words each).
	atOnce = 50
	// room bounds what waits for a guardian.
	room = 2000
	// moment is how long an event waits for others.
	moment = 300 * time.Millisecond
	// closing bounds how long an end waits for a guardian.
	closing = 5 * time.Second
)

// Batch collects the events of commands that joined a session.
type Batch struct {
	send    func(context.Context, []api.FileEvent) error
	in      chan api.FileEvent
	end     chan struct{} // closed by Close
	done    chan struct{}
	waiting []api.FileEvent
	missed  uint64 // that found no room
	err     error  // of the last try
}

// New has events sent by send, one call at a time, until Close.
func New(ctx context.Context, send func(context.Context, []api.FileEvent) error) *Batch {
	b := &Batch{send: send, in: make(chan api.FileEvent), end: make(chan struct{}), done: make(chan struct{})}
	go b.run(ctx)
	return b
}

// Add adds an event. It may wait for a request to end; after Close nothing is added.
func (b *Batch) Add(e sandbox.FileEvent) {
	select {
	case b.in <- api.FileEvent(e):
	case <-b.done:
	}
}

// Close sends what waits, and says how many events were not recorded and why.
func (b *Batch) Close() (missed uint64, why error) {
	close(b.end)
	<-b.done
	return b.missed + uint64(len(b.waiting)), b.err
}

func (b *Batch) run(ctx context.Context) {
	defer close(b.done)
	tick := time.NewTicker(moment)
	defer tick.Stop()
	for {
		select {
		case <-b.end:
			// What a command did is recorded though its caller is gone.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
			defer cancel()
			for b.flush(ctx); b.any() && ctx.Err() == nil; b.flush(ctx) {
				wait(ctx, tick.C)
			}
			return
		case e := <-b.in:
			if len(b.waiting) == room {
				b.missed++
				continue
			}
			if b.waiting = append(b.waiting, e); len(b.waiting)%atOnce == 0 {
				b.flush(ctx)
			}
		case <-tick.C:
			b.flush(ctx)
		}
	}
}

func wait(ctx context.Context, tick <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-tick:
	}
}

func (b *Batch) any() bool { return len(b.waiting) > 0 || b.missed > 0 }

// flush sends what waits, as far as a guardian takes it.
func (b *Batch) flush(ctx context.Context) {
	for len(b.waiting) > 0 {
		some := b.waiting[:min(len(b.waiting), atOnce)]
		if b.err = b.send(ctx, some); b.err != nil {
			return
		}
		b.waiting = append([]api.FileEvent(nil), b.waiting[len(some):]...)
	}
	if b.missed > 0 {
		if b.err = b.send(ctx, []api.FileEvent{Missed(b.missed)}); b.err == nil {
			b.missed = 0
		}
	}
}

// Missed is the event that says how many were not recorded one by one.
func Missed(n uint64) api.FileEvent {
	return api.FileEvent{When: time.Now(), Op: "several", Unseen: "no guardian was there to record them", More: n}
}
