package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// settle ends a question. The lock is held.
func (q *Queue) settle(it *item, o Outcome, r Reply) Item {
	it.Outcome, it.Reply, it.Settled = o, r, time.Now()
	it.timer.Stop()
	delete(q.items, it.ID)
	delete(q.byKey, it.key)
	if s := q.sessions[it.SessionID]; s != nil {
		s.pending--
	}
	q.history = append(q.history, it.Item)
	if extra := len(q.history) - q.o.History; extra > 0 {
		q.history = slices.Delete(q.history, 0, extra)
	}
	close(it.done)
	return it.Item
}

// Answer gives a person's word. The first one counts: *Over tells a second of
// it. ErrNotFound where no question has that ID.
func (q *Queue) Answer(ctx context.Context, id string, r Reply) (Item, error) {
	it, seen, err := q.claim(id, r)
	if err != nil {
		if over, is := errors.AsType[*Over](err); is && over.Item.answerable(r) {
			return q.answerLate(ctx, over.Item, r)
		}
		return Item{}, err
	}
	err = q.o.Decide(ctx, seen, r)
	q.mu.Lock()
	if err == nil {
		outcome := Denied
		if r.Allow {
			outcome = Allowed
		}
		ended := q.settle(it, outcome, r)
		q.mu.Unlock()
		q.o.Changed(ended)
		return ended, nil
	}
	it.claimed = false
	late := Pending
	switch {
	case it.overdue:
		late = Expired
	case it.Waiting <= 0 || it.left:
		late = Withdrawn
	}
	if late == Pending {
		q.mu.Unlock()
		return Item{}, err
	}
	ended := q.settle(it, late, Reply{})
	q.mu.Unlock()
	q.end(ended)
	return Item{}, err
}

// answerable reports whether an answer can still be remembered: no one waits for it any
// more, so it is for what comes later.
func (i Item) answerable(r Reply) bool {
	return (i.Outcome == Expired || i.Outcome == Withdrawn) && r.Scope != Once &&
		(r.Nonce == "" || r.Nonce == i.Nonce) && (i.Scopes == nil || slices.Contains(i.Scopes, r.Scope))
}

// answerLate gives a person's word on a question that ended without one.
func (q *Queue) answerLate(ctx context.Context, i Item, r Reply) (Item, error) {
	mark := func(from, to Outcome, r Reply) (Item, bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for n := range q.history {
			if old := &q.history[n]; old.ID == i.ID && old.Outcome == from {
				old.Outcome, old.Reply = to, r
				return *old, true
			}
		}
		return i, false
	}
	outcome := Denied
	if r.Allow {
		outcome = Allowed
	}
	ended, first := mark(i.Outcome, outcome, r)
	if !first {
		return Item{}, &Over{ended} // another answer came, or it is forgotten
	}
	if err := q.o.Decide(ctx, i, r); err != nil {
		mark(outcome, i.Outcome, Reply{})
		return Item{}, err
	}
	q.o.Changed(ended)
	return ended, nil
}

// claim makes one answer the first.
func (q *Queue) claim(id string, r Reply) (*item, Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[id]
	if it == nil || !it.ready {
		for _, old := range slices.Backward(q.history) {
			if old.ID == id {
				return nil, Item{}, &Over{old}
			}
		}
		return nil, Item{}, fmt.Errorf("approval %q: %w", id, ErrNotFound)
	}
	if it.claimed {
		return nil, Item{}, &Over{it.Item}
	}
	if q.o.Awake() > it.last {
		// The machine slept: the timer stood still with it, the person's yes would
		// come to something that was asked long ago.
		it.timer.Reset(0)
		late := it.Item
		late.Outcome = Expired
		return nil, Item{}, &Over{late}
	}
	if r.Nonce != "" && r.Nonce != it.Nonce {
		return nil, Item{}, fmt.Errorf("approval %s: the answer is to another question: its nonce is not this one's", id)
	}
	// To refuse one is always possible: it is less than to refuse all.
	if it.Scopes != nil && !slices.Contains(it.Scopes, r.Scope) && (r.Allow || r.Scope != Once) {
		return nil, Item{}, fmt.Errorf("approval %s: an answer to this cannot have the scope %q, but %q", id, r.Scope,
			it.Scopes)
	}
	it.claimed = true
	return it, it.Item, nil
}
