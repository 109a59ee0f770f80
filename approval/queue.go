package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync"
	"time"
)

// Queue is what waits. It is safe for use by many goroutines.
type Queue struct {
	o Options

	mu       sync.Mutex
	items    map[string]*item // pending, by ID
	byKey    map[key]*item
	sessions map[string]*asker
	history  []Item // oldest first
	watchers map[*watcher]struct{}
}

// key is what makes two asks one question.
type key struct {
	session string
	kind    Kind
	subject string
	digest  string
}

// item is one question that waits.
type item struct {
	Item

	key      key
	first    waiter        // whose question it is
	left     bool          // it does not wait any more
	done     chan struct{} // closed when it is settled
	last     time.Duration // by the clock that runs also while the machine sleeps
	timer    *time.Timer
	ready    bool // recorded: it can be seen and answered
	claimed  bool // a person is answering
	overdue  bool // its time ended while a person was answering
	recorded error
}

// asker is what one session has asked.
type asker struct {
	pending int
	recent  []time.Time // of the last minute, oldest first
}

// watcher is someone who sees questions: of one session, or of all.
type watcher struct{ session string }

const (
	defaultPerSession = 64
	defaultTotal      = 10_000
	defaultRate       = 60
	defaultHistory    = 256
	rateSpan          = time.Minute
)

// New makes an empty queue.
func New(o Options) *Queue {
	o.PerSession = cmp.Or(o.PerSession, defaultPerSession)
	o.Total = cmp.Or(o.Total, defaultTotal)
	o.Rate = cmp.Or(o.Rate, defaultRate)
	o.History = cmp.Or(o.History, defaultHistory)
	if o.Awake == nil {
		o.Awake = sinceBoot
	}
	return &Queue{
		o: o, items: map[string]*item{}, byKey: map[key]*item{},
		sessions: map[string]*asker{}, watchers: map[*watcher]struct{}{},
	}
}

// Len is how many questions wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// waiter is one who waits, by the identity of what it points to.
type waiter *byte

// Ask waits for an answer. It returns when there is one, when the question's
// time is over, or when ctx ends; whoever did not get Allowed may not go on.
//
// Who waits behind an equal question is released by an answer that holds for longer
// than once. After an allow for once, and where the one who asked first has left, the
// next of those who wait has a question of its own, with another ID and nonce.
func (q *Queue) Ask(ctx context.Context, a *Ask) Answer {
	answered := false // a person answers them one after the other
	for {
		it, me, refused := q.join(ctx, a, answered)
		if it == nil {
			return Answer{Outcome: refused}
		}
		if !it.wait(ctx) {
			q.leave(it, me)
			return Answer{Outcome: Withdrawn, ID: it.ID}
		}
		if me == it.first || it.Shared {
			return it.answer()
		}
		answered = it.Outcome == Allowed && it.Reply.Scope == Once
		if !answered && it.Outcome != Withdrawn {
			return it.answer()
		}
	}
}

// answer tells of a settled question, which no one writes any more.
func (it *item) answer() Answer {
	return Answer{Outcome: it.Outcome, ID: it.ID, Reply: it.Reply, Err: it.recorded}
}

// wait reports whether the question was settled before ctx ended.
func (it *item) wait(ctx context.Context) bool {
	select {
	case <-it.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// join finds or makes the question.
func (q *Queue) join(ctx context.Context, a *Ask, answered bool) (*item, waiter, Outcome) {
	me := waiter(new(byte))
	it, fresh, refused := q.enter(a, me, answered)
	if fresh {
		q.open(ctx, it)
	}
	return it, me, refused
}

// enter joins an equal question, or makes one. Who waited behind one that was answered
// has been counted already.
func (q *Queue) enter(a *Ask, me waiter, answered bool) (it *item, fresh bool, refused Outcome) {
	now := time.Now()
	k := key{a.SessionID, a.Kind, a.Subject, a.Digest}
	q.mu.Lock()
	defer q.mu.Unlock()
	if it := q.byKey[k]; it != nil {
		it.Waiting++
		return it, false, ""
	}
	if !q.watched(a.SessionID) {
		return nil, false, Unwatched
	}
	s := q.sessions[a.SessionID]
	if s == nil {
		s = &asker{}
		q.sessions[a.SessionID] = s
	}
	s.recent = slices.DeleteFunc(s.recent, func(t time.Time) bool { return now.Sub(t) >= rateSpan })
	if s.pending >= q.o.PerSession || !answered && len(s.recent) >= q.o.Rate || len(q.items) >= q.o.Total {
		return nil, false, Overflow
	}
	s.pending++
	if !answered {
		s.recent = append(s.recent, now)
	}
	timeout := q.o.Timeout()
	it = &item{
		Item: Item{Ask: *a, ID: q.newID(), Nonce: nonce(), Created: now, Expires: now.Add(timeout), Outcome: Pending,
			Waiting: 1},
		key: k, first: me, done: make(chan struct{}), last: q.o.Awake() + timeout,
	}
	q.items[it.ID], q.byKey[k] = it, it
	it.timer = time.AfterFunc(timeout, func() { q.expire(it) })
	return it, true, ""
}

// nonce names one question, and no other at any time.
func nonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// newID makes an ID that is short enough to be typed.
func (q *Queue) newID() string {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
		id := hex.EncodeToString(b[:])
		if q.items[id] == nil && !slices.ContainsFunc(q.history, func(i Item) bool { return i.ID == id }) {
			return id
		}
	}
}

// open records the question; only then it can be seen.
func (q *Queue) open(ctx context.Context, it *item) {
	// For all who will wait, not only for the first.
	q.mu.Lock()
	asked := it.Item
	q.mu.Unlock()
	err := q.o.Opened(context.WithoutCancel(ctx), asked)
	q.mu.Lock()
	if q.items[it.ID] != it {
		q.mu.Unlock() // over already
		return
	}
	if err != nil {
		it.recorded = err
		q.settle(it, Unrecorded, Reply{})
		q.mu.Unlock()
		return
	}
	it.ready = true
	shown := it.Item
	q.mu.Unlock()
	q.o.Changed(shown)
}

// leave takes one who waited away. A question ends that the one has left whose it
// is: those behind it ask anew, for what was shown is not what they want.
func (q *Queue) leave(it *item, me waiter) {
	q.mu.Lock()
	it.Waiting--
	it.left = it.left || me == it.first && !it.Shared
	if it.Waiting > 0 && !it.left || it.claimed || q.items[it.ID] != it {
		q.mu.Unlock()
		return
	}
	ended := q.settle(it, Withdrawn, Reply{})
	q.mu.Unlock()
	q.end(ended)
}

func (q *Queue) expire(it *item) {
	q.mu.Lock()
	if q.items[it.ID] != it {
		q.mu.Unlock()
		return
	}
	if it.claimed {
		it.overdue = true
		q.mu.Unlock()
		return
	}
	ended := q.settle(it, Expired, Reply{})
	q.mu.Unlock()
	q.end(ended)
}

// end tells of a question that ended without an answer.
func (q *Queue) end(i Item) {
	q.o.Ended(i)
	q.o.Changed(i)
}

// Wake ends the questions whose time was over while the machine slept.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.o.Awake()
	for _, it := range q.items {
		if now > it.last {
			it.timer.Reset(0)
		}
	}
}
