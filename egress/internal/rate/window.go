// Package rate counts what happened in the last minute, or another such time.
//
// It promises bounded memory, however much is added, and that what is counted is exact
// but for one slot, a sixtieth of the time. It reads no clock: the caller tells the time, and
// has a lock where there are several.
package rate

import "time"

// slots are the slots of a window.
const slots = 60

// A Window sums what was added in the last slots times width.
type Window struct {
	width time.Duration
	held  []entry
}

// entry is one slot that holds something.
type entry struct{ at, n int64 }

func (w *Window) slot(now time.Duration) int64 { return int64(now / w.width) }

func (w *Window) trim(now time.Duration) int64 {
	at := w.slot(now)
	old := 0
	for old < len(w.held) && w.held[old].at <= at-slots {
		old++
	}
	w.held = append(w.held[:0], w.held[old:]...)
	return at
}

// Sum is what was added within the window before now.
func (w *Window) Sum(now time.Duration) int64 {
	w.trim(now)
	var n int64
	for _, e := range w.held {
		n += e.n
	}
	return n
}

// Add adds n at now.
func (w *Window) Add(now time.Duration, n int64) {
	at := w.trim(now)
	if last := len(w.held) - 1; last >= 0 && w.held[last].at == at {
		w.held[last].n += n
		return
	}
	w.held = append(w.held, entry{at, n})
}

// Next is when the oldest slot will be forgotten.
func (w *Window) Next(now time.Duration) time.Duration {
	if len(w.held) == 0 {
		return 0
	}
	return time.Duration(w.held[0].at+slots-w.slot(now)) * w.width
}

// Of is a Window of so many of these widths.
func Of(width time.Duration) Window { return Window{width: width} }
