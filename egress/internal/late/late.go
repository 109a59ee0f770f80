// Package late finds requests whose answer takes long, so that their programs are
// watched only then.
//
// Promise: an entry is either removed by its owner or watched, never both. It knows no
// request and no connection, and starts no goroutine for an answer that comes at once.
package late

import (
	"sync"
	"time"
)

const (
	// tick is how often the list is looked at: a request's program is watched after
	// one to two ticks.
	tick = 20 * time.Millisecond
	// rest is for how many ticks without any entry the ticker goes on.
	rest = 50
)

// A Watcher watches the program of a request while its server is silent.
type Watcher interface{ WatchLate() }

// An Entry is a request's place in a List. It is part of its Watcher, so that a request
// allocates nothing for it.
type Entry struct {
	Of Watcher

	listed     bool
	tick       uint64
	next, prev *Entry
}

// A List has the requests of one session whose answer is awaited while no goroutine
// watches their programs. Nearly every answer comes within a tick, and then neither a
// goroutine nor a deadline was needed. One ticker serves all of them: a timer for each
// wakes a thread each time (runtime.wakeNetPoller), which costs more than the rest of the
// request (docs/decisions/0024).
type List struct {
	Go   func(func())    // starts a goroutine that the owner of the list waits for
	Over <-chan struct{} // closed when every connection of the session is

	mu   sync.Mutex
	head *Entry
	tick uint64
	runs bool
}

// Add takes e in.
func (l *List) Add(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.listed, e.tick = true, l.tick
	if e.next = l.head; e.next != nil {
		e.next.prev = e
	}
	l.head = e
	if !l.runs {
		l.runs = true
		l.Go(l.run)
	}
}

// Remove reports whether e was in the list: then no goroutine watches it, nor will.
func (l *List) Remove(e *Entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.drop(e)
}

func (l *List) drop(e *Entry) bool {
	if !e.listed {
		return false
	}
	e.listed = false
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	}
	e.next, e.prev = nil, nil
	return true
}

// run ticks while there is an entry to look at, and a little longer. Each Watcher is
// waited for by the request that it belongs to.
func (l *List) run() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	over, idle := l.Over, 0
	for {
		select {
		case <-ticker.C:
		case <-over:
			over = nil // the entries that are left end soon
		}
		l.mu.Lock()
		l.tick++
		for e := l.head; e != nil; {
			next := e.next
			if l.tick-e.tick > 1 {
				l.drop(e)
				go e.Of.WatchLate()
			}
			e = next
		}
		if idle++; l.head != nil {
			idle = 0
		}
		ends := idle > rest || over == nil && l.head == nil
		l.runs = !ends
		l.mu.Unlock()
		if ends {
			return
		}
	}
}
