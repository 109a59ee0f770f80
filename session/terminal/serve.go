package terminal

import (
	"encoding/json"
	"net"
	"time"

	"cloister/internal/peercred"
	"cloister/internal/vscreen"
)

// Serve takes terminals of user uid until the listener is closed.
func (h *Hub) Serve(l *net.UnixListener, uid int) {
	h.others.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			if _, err := peercred.Require(conn, uid); err != nil {
				_ = conn.Close()
				continue
			}
			h.others.Go(func() {
				defer func() { _ = conn.Close() }()
				h.look(conn)
			})
		}
	})
}

// look serves one terminal until it goes.
func (h *Hub) look(conn *net.UnixConn) {
	unhook := afterDone(h.done, func() {
		_ = conn.SetReadDeadline(time.Now())
		_ = conn.SetWriteDeadline(time.Now().Add(lastWords))
	})
	defer unhook()
	if conn.SetReadDeadline(time.Now().Add(helloWithin)) != nil {
		return
	}
	kind, body, err := receive(conn)
	var size vscreen.Size
	if err != nil || kind != frameSize || json.Unmarshal(body, &size) != nil {
		return
	}
	if conn.SetReadDeadline(time.Time{}) != nil {
		return
	}
	v := &view{conn: conn, wake: make(chan struct{}, 1)}
	h.join(v, size)
	gone := make(chan struct{})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		h.feed(v, gone)
	}()
	h.listen(v)
	select {
	case <-h.done:
		<-fed // the end is said
	default:
		close(gone)
		_ = conn.Close() // a writer that waits for the terminal ends
		<-fed
	}
	h.part(v)
}

// afterDone calls f when done is closed, unless it is undone first.
func afterDone(done <-chan struct{}, f func()) (undo func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-done:
			f()
		case <-stop:
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// listen passes on what a terminal says.
func (h *Hub) listen(v *view) {
	for {
		kind, body, err := receive(v.conn)
		if err != nil {
			return
		}
		switch kind {
		case frameInput:
			h.mu.Lock()
			h.active = time.Now()
			h.mu.Unlock()
			select {
			case h.keys <- body:
			case <-h.done:
				return
			}
		case frameSize:
			var size vscreen.Size
			if json.Unmarshal(body, &size) != nil {
				return
			}
			h.resized(v, size)
		default:
			return
		}
	}
}

// join shows a terminal everything so far.
func (h *Hub) join(v *view, size vscreen.Size) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.size = within(size)
	h.views[v] = true
	h.fit(v)
	if v.size == h.screen.Size() {
		v.out = h.screen.Replay()
	}
	v.nudge()
}

func within(size vscreen.Size) vscreen.Size { return vscreen.New(size, nil).Size() }

func (h *Hub) part(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.views, v)
	h.fit(nil)
}
