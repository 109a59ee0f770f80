package approval

// Watch says that someone sees the questions of one session or, with "", of
// all, until the function is called.
func (q *Queue) Watch(sessionID string) (leave func()) {
	w := &watcher{sessionID}
	q.mu.Lock()
	q.watchers[w] = struct{}{}
	q.mu.Unlock()
	return func() {
		q.mu.Lock()
		delete(q.watchers, w)
		q.mu.Unlock()
	}
}

// Watchers is how many see every question.
func (q *Queue) Watchers() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for w := range q.watchers {
		if w.session == "" {
			n++
		}
	}
	return n
}

// Watched reports whether someone sees the questions of a session.
func (q *Queue) Watched(sessionID string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.watched(sessionID)
}

func (q *Queue) watched(sessionID string) bool {
	for w := range q.watchers {
		if w.session == "" || w.session == sessionID {
			return true
		}
	}
	return q.o.Reached != nil && q.o.Reached()
}
