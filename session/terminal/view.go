package terminal

import (
	"fmt"
	"net"
	"time"

	"cloister/internal/vscreen"
)

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
