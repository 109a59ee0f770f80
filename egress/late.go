package egress

import (
	"sync"
	"time"
)

const (
	// lateTick is how often answers that are late are looked for: a request's
	// program is watched after one to two of them.
	lateTick = 20 * time.Millisecond
	// lateRest is for how many ticks without any request the looking goes on.
	lateRest = 50
)

// lates are the requests whose answer is waited for with no one who watches the
// program. Nearly every answer comes within a tick, and then neither a goroutine nor
// a deadline was needed. One ticker serves them all: a timer for each wakes a
// thread each time (runtime.wakeNetPoller), which costs more than the rest of the
// request (docs/decisions/0024).
type lates struct {
	e    *Engine
	mu   sync.Mutex
	head *upload // by their next and prev
	tick uint64
	runs bool
}

// add takes u in.
func (l *lates) add(u *upload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u.listed, u.tick = true, l.tick
	if u.next = l.head; u.next != nil {
		u.next.prev = u
	}
	l.head = u
	if !l.runs {
		l.runs = true
		l.e.tasks.Go(l.run)
	}
}

// remove reports whether u was in: then no one watches it, nor will.
func (l *lates) remove(u *upload) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drop(u)
}

func (l *lates) drop(u *upload) bool {
	if !u.listed {
		return false
	}
	u.listed = false
	if u.prev == nil {
		l.head = u.next
	} else {
		u.prev.next = u.next
	}
	if u.next != nil {
		u.next.prev = u.prev
	}
	u.next, u.prev = nil, nil
	return true
}

// run ticks while there is something to look at, and a little longer. Each upload
// is waited for by its exchange.
func (l *lates) run() {
	ticker := time.NewTicker(lateTick)
	defer ticker.Stop()
	over, rest := l.e.over, 0
	for {
		select {
		case <-ticker.C:
		case <-over:
			over = nil // what is left ends soon
		}
		l.mu.Lock()
		l.tick++
		for u := l.head; u != nil; {
			next := u.next
			if l.tick-u.tick > 1 {
				l.drop(u)
				go u.watchLate()
			}
			u = next
		}
		if rest++; l.head != nil {
			rest = 0
		}
		ends := rest > lateRest || over == nil && l.head == nil
		l.runs = !ends
		l.mu.Unlock()
		if ends {
			return
		}
	}
}
