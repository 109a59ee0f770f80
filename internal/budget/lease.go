package budget

import "sync/atomic"

// A Lease is what one connection holds of its session's share beside what every
// connection does. Whatever is left of it is given back at its end. A nil Lease has no
// bound.
type Lease struct {
	share *Share
	held  atomic.Int64
}

// Lease begins one.
func (s *Share) Lease() *Lease { return &Lease{share: s} }

// Take takes n bytes, as Share.Take.
func (l *Lease) Take(n int64) error {
	if l == nil {
		return nil
	}
	err := l.share.Take(n)
	if err == nil {
		l.held.Add(n)
	}
	return err
}

// Give gives n bytes back.
func (l *Lease) Give(n int64) {
	if l != nil && n > 0 {
		l.held.Add(-n)
		l.share.Give(n)
	}
}

// End gives back what is left, once no one takes any more.
func (l *Lease) End() { l.share.Give(l.held.Swap(0)) }
