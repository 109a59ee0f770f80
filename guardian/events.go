package guardian

import (
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
	"cloister/audit"
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
	comeBack   = 3 * time.Second // of a page
	readWithin = 5 * time.Second
)

// bus keeps the latest events. Readers walk it at their own pace: one that
// stalls holds nothing up, and misses what falls out.
type bus struct {
	epoch string // another one after a restart: its numbers mean something else

	auditors atomic.Int32 // readers of what is recorded

	mu      sync.Mutex
	next    uint64 // number of the next event
	kept    []api.Event
	size    int           // bytes of their data
	moved   chan struct{} // closed at the next event
	readers int
}

func newBus() *bus {
	return &bus{epoch: strconv.FormatInt(time.Now().UnixNano(), 36), next: 1, moved: make(chan struct{})}
}

// publish adds one event.
func (b *bus) publish(kind string, data any) {
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

// audited publishes what was recorded, while somebody reads that.
func (b *bus) audited(e audit.Event) {
	if b.auditors.Load() > 0 {
		b.publish(api.EventAudit, recorded(e))
	}
}

func (b *bus) id(n uint64) string { return b.epoch + "-" + strconv.FormatUint(n, 10) }

// after lists the events from number n on, and what is closed at the next one.
// missed says that some of them are gone.
func (b *bus) after(n uint64) (list []api.Event, next uint64, missed bool, moved <-chan struct{}) {
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
func (b *bus) resume(last string) (n uint64, missed bool) {
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

func (b *bus) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers >= maxStreams {
		return false
	}
	b.readers++
	return true
}

func (b *bus) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers--
}

// getEvents streams what happens as server-sent events. An open stream is
// somebody who watches: asks wait for an answer as long as there is one. With
// ?session=NAME it is somebody who sees the questions of that one alone, such as a
// terminal that is attached to it.
func (g *guardian) getEvents(w http.ResponseWriter, r *http.Request) (any, error) {
	if !g.bus.enter() {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeBadRequest, Message: fmt.Sprintf("watch events: %d watch already", maxStreams)}
	}
	defer g.bus.leave()
	watched := "" // every session
	if name := r.URL.Query().Get("session"); name != "" {
		info, err := g.sessions.Find(name)
		if err != nil {
			return nil, err
		}
		watched = info.ID
	}
	auditor := r.URL.Query().Get("audit") != ""
	if auditor {
		g.bus.auditors.Add(1)
		defer g.bus.auditors.Add(-1)
	}
	n, missed := g.bus.resume(r.Header.Get("Last-Event-ID"))
	// Seen from here on: what is asked next is in the stream.
	leave := g.queue.Watch(watched)
	if callerOf(r) == Window {
		// A page that is loaded anew, or hands its stream to another tab, is back
		// in a moment: what is asked meanwhile waits.
		defer time.AfterFunc(comeBack, leave)
	} else {
		defer leave()
	}
	defer g.touch()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := stream{w: w, control: http.NewResponseController(w)}
	hello, err := json.Marshal(api.Hello{PID: g.status().PID, Version: g.o.Version})
	if err != nil {
		return nil, err
	}
	first := []api.Event{{ID: g.bus.id(n - 1), Type: api.EventHello, Data: hello}}
	if missed {
		first = append(first, api.Event{ID: g.bus.id(n - 1), Type: api.EventReset, Data: json.RawMessage("{}")})
	}
	// An error means that the reader is gone, or does not read: it may come back
	// and resume.
	if s.send(first) != nil {
		return hijacked{}, nil
	}
	timer := time.NewTicker(beat)
	defer timer.Stop()
	for {
		list, next, missed, moved := g.bus.after(n)
		if missed {
			list = []api.Event{{ID: g.bus.id(next - 1), Type: api.EventReset, Data: json.RawMessage("{}")}}
		}
		n = next
		if !auditor {
			list = slices.DeleteFunc(slices.Clone(list), func(e api.Event) bool { return e.Type == api.EventAudit })
		}
		if len(list) > 0 && s.send(list) != nil {
			return hijacked{}, nil
		}
		select {
		case <-r.Context().Done():
			return hijacked{}, nil
		case <-moved:
		case <-timer.C:
			if s.beat() != nil {
				return hijacked{}, nil
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
