package gated

import "time"

// timing is when a path is looked at.
type timing struct {
	first, at time.Time
	gone      bool
}

// queue is what is due of one side: paths that go first, and new ones in the order in which they
// came, so that a payload which makes a hundred thousand files does not keep a save waiting.
type queue struct {
	hot, fresh map[string]timing
	order      []string // of fresh
}

func newQueue() queue { return queue{hot: map[string]timing{}, fresh: map[string]timing{}} }

func (q *queue) len() int { return len(q.hot) + len(q.fresh) }

func (q *queue) has(rel string) bool {
	_, hot := q.hot[rel]
	_, fresh := q.fresh[rel]
	return hot || fresh
}

func (q *queue) add(e event, now time.Time, first func(string) bool) {
	t, hot := q.hot[e.rel]
	if !hot {
		var waits bool
		if t, waits = q.fresh[e.rel]; !waits {
			t.first = now
			if hot = first(e.rel); !hot {
				q.order = append(q.order, e.rel)
			}
		}
	}
	t.at, t.gone = now.Add(e.rest), t.gone || e.gone
	if last := t.first.Add(longest); t.at.After(last) {
		t.at = last
	}
	if hot {
		q.hot[e.rel] = t
	} else {
		q.fresh[e.rel] = t
	}
}

// next is when something is due, or a later time that is given.
func (q *queue) next(than time.Time) time.Time {
	for _, t := range q.hot {
		if t.at.Before(than) {
			than = t.at
		}
	}
	if len(q.order) > 0 {
		// Those behind it may be due before it, by less than this.
		if t := q.fresh[q.order[0]].at.Add(-soon); t.Before(than) {
			than = t
		}
		if first := time.Now().Add(time.Millisecond); than.Before(first) && q.fresh[q.order[0]].at.After(first) {
			than = first
		}
	}
	return than
}

// take gives the paths that go first and are due, and whether a folder was taken away.
func (q *queue) take(now time.Time) (list []string, gone bool) {
	for rel, t := range q.hot {
		if !t.at.After(now) {
			list = append(list, rel)
			gone = gone || t.gone
			delete(q.hot, rel)
		}
	}
	// A folder that is taken away is often none that goes first.
	for i := 0; i < len(q.order) && i < 1000; i++ {
		if t := q.fresh[q.order[i]]; t.gone {
			gone, t.gone = true, false
			q.fresh[q.order[i]] = t
		}
	}
	return list, gone
}

// takeNew gives the first of the other paths that is due.
func (q *queue) takeNew(now time.Time) (rel string, ok bool) {
	for range min(len(q.order), 1000) {
		rel, q.order = q.order[0], q.order[1:]
		if !q.fresh[rel].at.After(now) {
			delete(q.fresh, rel)
			return rel, true
		}
		q.order = append(q.order, rel)
	}
	return "", false
}
