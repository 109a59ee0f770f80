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
	"os"
	"sync"
	"time"

	"github.com/creack/pty"

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
