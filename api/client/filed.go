package client

import (
	"slices"
	"time"

	"cloister/api"
	"cloister/internal/passfd"
)

// mostHeld bounds the events that wait for a guardian to say that it recorded them.
const mostHeld = 2000

// filed are events of files that no guardian has said to have recorded, with their numbers.
type filed struct {
	last   uint64 // the number of the newest
	held   []api.Frame
	missed uint64 // that found no room
	acks   bool   // the guardian says what it records; earlier ones do not
}

// Judged tells what became of files and programs. What a guardian did not say to have recorded
// is sent to the next one, too.
func (l *Link) Judged(e api.FileEvent) {
	l.mu.Lock()
	if len(l.filed.held) >= mostHeld && !l.filed.acks && l.conn != nil {
		l.filed.held = l.filed.held[1:]
	}
	if len(l.filed.held) >= mostHeld {
		l.filed.missed++
		l.mu.Unlock()
		return
	}
	frame := l.filed.add(e)
	conn := l.conn
	l.mu.Unlock()
	l.send(conn, frame, nil)
}

func (f *filed) add(e api.FileEvent) api.Frame {
	f.last++
	frame := api.Frame{Type: api.FrameFile, File: &e, Filed: f.last}
	f.held = append(f.held, frame)
	return frame
}

// recorded lets go of what was recorded, up to a number, and gives the event for those that
// found no room meanwhile; nil where all did.
func (f *filed) recorded(upTo uint64) *api.Frame {
	f.acks = true
	f.held = slices.DeleteFunc(f.held, func(one api.Frame) bool { return one.Filed <= upTo })
	if f.missed == 0 || len(f.held) >= mostHeld {
		return nil
	}
	frame := f.add(api.FileEvent{
		When: time.Now(), Op: "several", More: f.missed,
		Unseen: "the guardian did not record as fast as they came, or was not there",
	})
	f.missed = 0
	return &frame
}

// tellAgain tells a new guardian what waits.
func (l *Link) tellAgain(conn *passfd.Conn) {
	l.mu.Lock()
	for i := range l.filed.held {
		l.filed.held[i].Again = true
	}
	list := slices.Clone(l.filed.held)
	l.mu.Unlock()
	for _, frame := range list {
		l.send(conn, frame, nil)
	}
}

// Unrecorded is how many events of files no guardian has said to have recorded, when the session
// is over. The last guardian may have recorded some of them.
func (l *Link) Unrecorded() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.filed.missed + uint64(len(l.filed.held))
}
