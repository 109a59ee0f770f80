package approval

import (
	"cmp"
	"fmt"
	"slices"
)

// Review ends every question for which over says that the policy has an answer
// by now; those who waited ask it again.
func (q *Queue) Review(over func(Item) bool) {
	for _, i := range q.Pending() {
		if !over(i) {
			continue
		}
		q.mu.Lock()
		it := q.items[i.ID]
		if it == nil || it.claimed {
			q.mu.Unlock()
			continue
		}
		ended := q.settle(it, Superseded, Reply{})
		q.mu.Unlock()
		q.end(ended)
	}
}

// Forget drops what is known of a session that is over.
func (q *Queue) Forget(sessionID string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.sessions, sessionID)
}

// Pending lists what waits, oldest first.
func (q *Queue) Pending() []Item {
	q.Wake()
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make([]Item, 0, len(q.items))
	for _, it := range q.items {
		if it.ready {
			out = append(out, it.Item)
		}
	}
	slices.SortFunc(out, func(a, b Item) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// History lists what ended, newest first, bounded.
func (q *Queue) History() []Item {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := slices.Clone(q.history)
	slices.Reverse(out)
	return out
}

// Find is one question, pending or ended, by its ID or the only one that begins
// so.
func (q *Queue) Find(id string) (Item, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found []Item
	for _, it := range q.items {
		if it.ready && len(id) > 0 && len(it.ID) >= len(id) && it.ID[:len(id)] == id {
			found = append(found, it.Item)
		}
	}
	for _, old := range q.history {
		if old.ID == id {
			found = append(found, old)
		}
	}
	switch len(found) {
	case 0:
		return Item{}, fmt.Errorf("approval %q: %w", id, ErrNotFound)
	case 1:
		return found[0], nil
	}
	return Item{}, fmt.Errorf("approval %q: %d begin so: type more of it", id, len(found))
}
