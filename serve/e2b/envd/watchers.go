package envd

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"cloister/serve"
	"cloister/serve/connect"
	"cloister/serve/e2b/answer"
	"cloister/serve/files"
)

// Bounds of watchers that are asked now and then.
const (
	maxWatchers = 64       // of one sandbox
	maxPending  = 4096     // events that were not fetched
	maxHeld     = 16 << 20 // bytes of them, of all watchers of a sandbox
	forgotten   = 10 * time.Minute
)

// watchers are the watches of clients that ask for events instead of reading a stream.
type watchers struct {
	mu sync.Mutex
	of map[string]*watcher
	wg sync.WaitGroup
}

type watcher struct {
	sandbox *serve.Sandbox
	stop    context.CancelFunc

	mu     sync.Mutex
	events []*changeWire
	held   int // bytes of the events
	asked  time.Time
	err    error
}

type (
	watcherReply struct {
		WatcherID string `json:"watcherId"`
	}
	eventsReply struct {
		Events []*changeWire `json:"events"`
	}
)

func (d *Service) watcherCreate(ctx context.Context, r *http.Request, q pathWire) (watcherReply, error) {
	p, err := d.pool(ctx, r)
	if err != nil {
		return watcherReply{}, err
	}
	s := sandboxOf(ctx)
	id, w, run, err := d.watchers.add(context.WithoutCancel(ctx), s)
	if err != nil {
		return watcherReply{}, err
	}
	ready := make(chan error, 1)
	d.watchers.wg.Go(func() {
		err := p.Watch(run, resolve(q.Path), q.Recursive, q.IncludeEntry, func() error { ready <- nil; return nil }, w.add)
		select {
		case ready <- err:
		default:
		}
		w.end(err)
	})
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		d.watchers.remove(id)
		return watcherReply{}, d.rpcError(err)
	}
	return watcherReply{id}, nil
}

func (ws *watchers) add(ctx context.Context, s *serve.Sandbox) (string, *watcher, context.Context, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.of == nil {
		ws.of = map[string]*watcher{}
	}
	n := 0
	for id, w := range ws.of {
		if w.old() {
			w.stop()
			delete(ws.of, id)
		} else if w.sandbox == s {
			n++
		}
	}
	if n >= maxWatchers {
		return "", nil, nil, connect.Errorf(connect.ResourceExhausted, "the sandbox has %d watchers, which is the limit", n)
	}
	ctx, stop := context.WithCancel(ctx)
	id := "w" + strings.ToLower(rand.Text())
	w := &watcher{sandbox: s, stop: stop, asked: time.Now()}
	ws.of[id] = w
	return id, w, ctx, nil
}

// find gives a watcher of one sandbox.
func (ws *watchers) find(id string, s *serve.Sandbox) (*watcher, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.of[id]
	if w == nil || w.sandbox != s {
		return nil, connect.Errorf(connect.NotFound, "watcher %q not found", answer.Clip(id))
	}
	return w, nil
}

func (ws *watchers) remove(id string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.of[id]; w != nil {
		w.stop()
		delete(ws.of, id)
	}
}

func (ws *watchers) close() {
	ws.mu.Lock()
	for _, w := range ws.of {
		w.stop()
	}
	ws.mu.Unlock()
	ws.wg.Wait()
}

func (w *watcher) add(e files.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) > forgotten {
		return connect.Errorf(connect.ResourceExhausted, "the events were not fetched")
	}
	if len(w.events) >= maxPending {
		return connect.Errorf(connect.ResourceExhausted, "more than %d events were not fetched", maxPending)
	}
	c := changeOf(e)
	if w.held += c.size(); w.held > maxHeld/maxWatchers {
		return connect.Errorf(connect.ResourceExhausted, "more than %d bytes of events were not fetched", maxHeld/maxWatchers)
	}
	w.events = append(w.events, c)
	return nil
}

// size is about how many bytes an event holds.
func (c *changeWire) size() int {
	n := 256 + len(c.Name)
	if e := c.Entry; e != nil {
		n += 256 + len(e.Name) + len(e.Path)
		if e.SymlinkTarget != nil {
			n += len(*e.SymlinkTarget)
		}
		for name, value := range e.Metadata {
			n += len(name) + len(value)
		}
	}
	return n
}

func (w *watcher) end(err error) {
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
}

func (w *watcher) old() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.asked) > forgotten
}

func (d *Service) watcherEvents(ctx context.Context, _ *http.Request, q pathWire) (eventsReply, error) {
	w, err := d.watchers.find(q.WatcherID, sandboxOf(ctx))
	if err != nil {
		return eventsReply{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := eventsReply{Events: append([]*changeWire{}, w.events...)}
	w.events, w.held, w.asked = nil, 0, time.Now()
	if len(out.Events) == 0 && w.err != nil {
		return out, d.rpcError(w.err)
	}
	return out, nil
}

func (d *Service) watcherRemove(ctx context.Context, _ *http.Request, q pathWire) (nothing, error) {
	if _, err := d.watchers.find(q.WatcherID, sandboxOf(ctx)); err != nil {
		return nothing{}, err
	}
	d.watchers.remove(q.WatcherID)
	return nothing{}, nil
}
