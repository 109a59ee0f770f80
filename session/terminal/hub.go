// Package terminal lets several terminals look at one program, or none.
//
// A Hub owns the program's terminal and a virtual screen of it. Terminals come
// and go on a unix socket: each is shown what the screen shows and has shown,
// then what the program writes, and what is typed into any of them goes to the
// program. The promise: a terminal that is slow, gone or hostile neither stops
// the program nor the others; what programs ask a terminal is answered once, by
// the virtual screen; no byte reaches a person's terminal that could steer it.
//
// It starts no program, and it trusts whoever it accepts: the socket's folder
// and the peer's credentials say who that is.
//
// Most readers want [New] on the program's side, [Attach] on the person's.
package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"

	"cloister/internal/peercred"
	"cloister/internal/termsafe"
	"cloister/internal/vscreen"
)

const (
	// maxBehind is how much output waits for one terminal; beyond it that
	// terminal is shown the screen as it is by then.
	maxBehind = 256 << 10
	// frameEvery is how often a terminal of another size is drawn.
	frameEvery = 40 * time.Millisecond
	// lastWords is how long a terminal may take to read the end.
	lastWords = 2 * time.Second
	// helloWithin is how long a caller may take to say its size.
	helloWithin = 30 * time.Second
	// chunk is how much is read at once.
	chunk = 32 << 10
)

// End is how the program ended, for whoever looks.
type End struct {
	Status  int      `json:"status"`
	Notices []string `json:"notices,omitempty"`
}

// Options of a Hub.
type Options struct {
	Size vscreen.Size // 80 by 24 where it is zero
	// Log gets what the program writes; an error of it is kept for Finish.
	Log io.Writer
	// Resized is called after the program's terminal got another size.
	Resized func()
}

// Hub is one program's terminal. It is safe for use by several goroutines.
type Hub struct {
	o             Options
	master, slave *os.File
	keys          chan []byte // to the program
	drained       chan struct{}
	done          chan struct{}
	others        sync.WaitGroup

	mu       sync.Mutex
	screen   *vscreen.Screen
	filtered bytes.Buffer
	filter   *termsafe.Filter
	views    map[*view]bool
	active   time.Time
	logErr   error
	end      *End
}

// view is one terminal that looks.
type view struct {
	conn   *net.UnixConn
	size   vscreen.Size
	wake   chan struct{}
	out    []byte
	behind bool     // out was thrown away
	drawn  []string // the lines that it shows, when it is not of the program's size
	framed bool     // drawn counts
	notes  []string
}

// maxNotes bounds the notes that wait for one terminal.
const maxNotes = 16

// Note shows a line of ours over the screen of each terminal that looks now.
func (h *Hub) Note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.views {
		if len(v.notes) < maxNotes {
			v.notes = append(v.notes, text)
			v.nudge()
		}
	}
}

// noted takes a terminal's notes.
func (h *Hub) noted(v *view) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	notes := v.notes
	v.notes = nil
	return notes
}

// New makes a terminal for one program.
func New(o Options) (*Hub, error) {
	if o.Size == (vscreen.Size{}) {
		o.Size = vscreen.Size{Cols: 80, Rows: 24}
	}
	master, slave, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	h := &Hub{
		o: o, master: master, slave: slave,
		keys:    make(chan []byte, 64),
		drained: make(chan struct{}),
		done:    make(chan struct{}),
		views:   map[*view]bool{},
		active:  time.Now(),
	}
	h.screen = vscreen.New(o.Size, h.answer)
	h.filter = termsafe.NewSilent(&h.filtered)
	if err := h.setSize(h.screen.Size()); err != nil {
		return nil, errors.Join(err, master.Close(), slave.Close())
	}
	h.others.Go(h.read)
	h.others.Go(h.write)
	return h, nil
}

// Terminal is what the program gets as its standard input, output and error.
func (h *Hub) Terminal() *os.File { return h.slave }

// Active is when the program last wrote, or a person typed.
func (h *Hub) Active() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.active
}

// answer passes the screen's answer on; a program that asks and does not read
// loses it.
func (h *Hub) answer(b []byte) {
	select {
	case h.keys <- b:
	default:
	}
}

func (h *Hub) setSize(size vscreen.Size) error {
	// Within MaxSide, so it fits.
	if err := pty.Setsize(h.master, &pty.Winsize{Rows: uint16(size.Rows), Cols: uint16(size.Cols)}); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// read takes the program's output until the last descriptor of its terminal is
// closed.
func (h *Hub) read() {
	defer close(h.drained)
	buf := make([]byte, chunk)
	for {
		n, err := h.master.Read(buf)
		if n > 0 {
			h.output(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (h *Hub) output(b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.active = time.Now()
	if h.o.Log != nil && h.logErr == nil {
		_, h.logErr = h.o.Log.Write(b)
	}
	h.screen.Draw(b)
	h.filtered.Reset()
	_, _ = h.filter.Write(b) // a buffer takes everything
	for v := range h.views {
		v.take(h.filtered.Bytes(), h.screen.Size())
	}
}

// take queues output for one terminal.
func (v *view) take(b []byte, size vscreen.Size) {
	switch {
	case v.size != size || v.behind:
	case len(v.out)+len(b) > maxBehind:
		v.out, v.behind = nil, true
	default:
		v.out = append(v.out, b...)
	}
	v.nudge()
}

func (v *view) nudge() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// write types into the program's terminal.
func (h *Hub) write() {
	for {
		select {
		case <-h.done:
			return
		case b := <-h.keys:
			if _, err := h.master.Write(b); err != nil {
				return
			}
		}
	}
}

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

func (h *Hub) resized(v *view, size vscreen.Size) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v.size = within(size)
	h.fit(nil)
	// Its own terminal has moved lines about already.
	v.out, v.behind = nil, true
	v.nudge()
}

// fit gives the program the largest size that every terminal can show; without
// one the size stays. h.mu is held.
func (h *Hub) fit(joining *view) {
	size := vscreen.Size{Cols: vscreen.MaxSide, Rows: vscreen.MaxSide}
	for v := range h.views {
		size.Cols, size.Rows = min(size.Cols, v.size.Cols), min(size.Rows, v.size.Rows)
	}
	if h.end != nil || len(h.views) == 0 || size == h.screen.Size() {
		return // after the end the terminal is closed
	}
	if h.setSize(size) != nil {
		return // the program has ended: what it drew stays as it is
	}
	h.screen.Resize(size)
	if h.o.Resized != nil {
		h.o.Resized()
	}
	for v := range h.views {
		if v != joining {
			v.out, v.behind = nil, true
			v.nudge()
		}
	}
}

// feed writes to one terminal until it is gone or the program has ended.
func (h *Hub) feed(v *view, gone <-chan struct{}) {
	for {
		select {
		case <-gone:
			return
		case <-h.done:
			h.finish(v)
			return
		case <-v.wake:
		}
		out, framed := h.due(v)
		if len(out) > 0 && send(v.conn, frameOutput, out) != nil {
			return
		}
		for _, note := range h.noted(v) {
			if send(v.conn, frameNote, []byte(note)) != nil {
				return
			}
		}
		if framed {
			select {
			case <-gone:
				return
			case <-h.done:
			case <-time.After(frameEvery):
			}
		}
	}
}

// finish writes the last output and the end.
func (h *Hub) finish(v *view) {
	if v.conn.SetWriteDeadline(time.Now().Add(lastWords)) != nil {
		return
	}
	if out, _ := h.due(v); len(out) > 0 && send(v.conn, frameOutput, out) != nil {
		return
	}
	h.mu.Lock()
	end := h.end
	h.mu.Unlock()
	if body, err := json.Marshal(end); err == nil {
		_ = send(v.conn, frameEnd, body) // whoever has gone needs no word
	}
}

// due is what a terminal gets next; framed tells that it was drawn, not passed
// on.
func (h *Hub) due(v *view) (out []byte, framed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case v.size != h.screen.Size():
		out = v.frame(h.screen)
		v.out, v.behind, v.framed = nil, false, true
		return out, true
	case v.framed || v.behind:
		out = h.screen.Repaint()
		v.out, v.behind, v.framed, v.drawn = nil, false, false, nil
		return out, false
	}
	out, v.out = v.out, nil
	return out, false
}

// frame draws the screen on a terminal that is larger than it: the lines that
// changed, and the cursor.
func (v *view) frame(s *vscreen.Screen) []byte {
	var out []byte
	if !v.framed {
		v.drawn = nil
		out = append(out, "\x1b[?1049l\x1b[0m\x1b[r\x1b[?6l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?2004l\x1b[H\x1b[2J"...)
	}
	out = append(out, "\x1b[?25l"...)
	rows := min(s.Size().Rows, v.size.Rows)
	for y := range rows {
		line := string(s.Line(y))
		if y < len(v.drawn) && v.drawn[y] == line {
			continue
		}
		out = fmt.Appendf(out, "\x1b[%d;1H\x1b[2K%s", y+1, line)
		for len(v.drawn) <= y {
			v.drawn = append(v.drawn, "")
		}
		v.drawn[y] = line
	}
	for y := rows; y < len(v.drawn); y++ {
		out = fmt.Appendf(out, "\x1b[%d;1H\x1b[2K", y+1)
	}
	v.drawn = v.drawn[:rows]
	x, y, shown := s.Cursor()
	out = fmt.Appendf(out, "\x1b[%d;%dH", y+1, x+1)
	if shown {
		out = append(out, "\x1b[?25h"...)
	}
	return out
}

// Finish waits for the last output, tells every terminal the end, and closes
// them. The listener is the caller's to close before. Its error is why the log
// is not whole.
func (h *Hub) Finish(end End) error {
	h.slave.Close()
	<-h.drained
	h.mu.Lock()
	h.end = &end
	h.mu.Unlock()
	close(h.done)
	h.master.Close() // what is still being written to it ends by that
	h.others.Wait()
	if h.logErr != nil {
		return fmt.Errorf("write the terminal's log: %w", h.logErr)
	}
	return nil
}
