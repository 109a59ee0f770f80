// Package events keeps what happened lately for those who watch, as numbered events.
//
// Promise: every reader goes its own pace, and goes on where it was cut off, or is notified
// that it missed something; one that stalls holds nothing up.
//
// It does not know what the events mean, nor who may read them.
//
// Most readers want [Bus.Join].
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/api"
)

const (
	// keptEvents is how far back a reader that was cut off can go on from.
	keptEvents = 1024
	// keptBytes bounds their data: what is recorded may be long.
	keptBytes = 4 << 20
	// maxStreams bounds the readers.
	maxStreams = 64
	// beat is how often a silent stream is written to, so that a reader that is
	// gone is noticed; readWithin is how long one may not read at all.
	beat       = 15 * time.Second
	readWithin = 5 * time.Second
)

// Bus keeps the latest events. Readers walk it at their own pace: one that
// stalls holds nothing up, and misses what falls out.
type Bus struct {
	epoch string // another one after a restart: its numbers mean something else

	auditors atomic.Int32 // readers of what is recorded

	mu      sync.Mutex
	next    uint64 // number of the next event
	kept    []api.Event
	size    int           // bytes of their data
	moved   chan struct{} // closed at the next event
	readers int
}

// New is a bus on which nothing happened yet.
func New() *Bus {
	return &Bus{epoch: strconv.FormatInt(time.Now().UnixNano(), 36), next: 1, moved: make(chan struct{})}
}

// Publish adds one event.
func (b *Bus) Publish(kind string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // wire types of package api: they can be marshalled
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, api.Event{ID: b.id(b.next), Type: kind, Data: text})
	b.next++
	b.size += len(text)
	if len(b.kept) >= 2*keptEvents || b.size > keptBytes {
		b.kept = append(make([]api.Event, 0, 2*keptEvents), b.kept[len(b.kept)-min(len(b.kept)/2, keptEvents):]...)
		b.size = 0
		for _, e := range b.kept {
			b.size += len(e.Data)
		}
	}
	close(b.moved)
	b.moved = make(chan struct{})
}

// Audited reports whether someone reads what is recorded.
func (b *Bus) Audited() bool { return b.auditors.Load() > 0 }

func (b *Bus) id(n uint64) string { return b.epoch + "-" + strconv.FormatUint(n, 10) }

// after lists the events from number n on, and what is closed at the next one.
// missed says that some of them are gone.
func (b *Bus) after(n uint64) (list []api.Event, next uint64, missed bool, moved <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.next - uint64(len(b.kept))
	if n < first || n > b.next {
		return nil, b.next, true, b.moved
	}
	return b.kept[n-first:], b.next, false, b.moved
}

// resume is the number that follows the last ID which a reader saw; of a reader
// that saw none, the next one.
func (b *Bus) resume(last string) (n uint64, missed bool) {
	b.mu.Lock()
	next := b.next
	b.mu.Unlock()
	if last == "" {
		return next, false
	}
	number, ok := strings.CutPrefix(last, b.epoch+"-")
	seen, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || seen >= next {
		return next, true
	}
	return seen + 1, false
}

// A Reader is one who watches, from the moment on at which it joined.
type Reader struct {
	bus     *Bus
	n       uint64 // number of its next event
	missed  bool
	auditor bool
}

// Join lets one more read, unless too many do: from the event after last on, which is
// the ID that it saw; with audit also what is recorded.
func (b *Bus) Join(last string, audit bool) (*Reader, error) {
	b.mu.Lock()
	full := b.readers >= maxStreams
	if !full {
		b.readers++
	}
	b.mu.Unlock()
	if full {
		return nil, fmt.Errorf("%d watch already", maxStreams)
	}
	if audit {
		b.auditors.Add(1)
	}
	r := &Reader{bus: b, auditor: audit}
	r.n, r.missed = b.resume(last)
	return r, nil
}

// Leave must be called once.
func (r *Reader) Leave() {
	if r.auditor {
		r.bus.auditors.Add(-1)
	}
	r.bus.mu.Lock()
	defer r.bus.mu.Unlock()
	r.bus.readers--
}

// Serve streams what happens as server-sent events, hello first, until ctx ends or the
// reader is gone, or does not read: it may come back and resume.
func (r *Reader) Serve(ctx context.Context, w http.ResponseWriter, hello json.RawMessage) {
	b := r.bus
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := stream{w: w, control: http.NewResponseController(w)}
	first := []api.Event{{ID: b.id(r.n - 1), Type: api.EventHello, Data: hello}}
	if r.missed {
		first = append(first, api.Event{ID: b.id(r.n - 1), Type: api.EventReset, Data: json.RawMessage("{}")})
	}
	if s.send(first) != nil {
		return
	}
	timer := time.NewTicker(beat)
	defer timer.Stop()
	for {
		list, next, missed, moved := b.after(r.n)
		if missed {
			list = []api.Event{{ID: b.id(next - 1), Type: api.EventReset, Data: json.RawMessage("{}")}}
		}
		r.n = next
		if !r.auditor {
			list = slices.DeleteFunc(slices.Clone(list), func(e api.Event) bool { return e.Type == api.EventAudit })
		}
		if len(list) > 0 && s.send(list) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		case <-timer.C:
			if s.beat() != nil {
				return
			}
		}
	}
}

// stream writes events to one reader.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s stream) send(list []api.Event) error {
	var b strings.Builder
	for _, e := range list {
		// JSON on one line: no data can begin a field of its own.
		fmt.Fprintf(&b, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Type, e.Data)
	}
	return s.write(b.String())
}

func (s stream) beat() error { return s.write(": still here\n\n") }

func (s stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(readWithin)); err != nil {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
