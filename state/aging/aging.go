// Package aging says which automatic checkpoints go as they grow old.
//
// The promise: what a person made or a workspace stands on is never among them, however
// old it is and however much there is.
//
// It removes nothing itself.
//
// The call most readers want is [Drop].
package aging

import (
	"slices"
	"time"
)

// quota bounds what automatic checkpoints of one workspace may take, in bytes. The oldest
// go first.
const quota = 2 << 30

// A Moment is one checkpoint of a workspace.
type Moment struct {
	ID   string
	Time time.Time
	// Stays says that a person made it, or that the workspace stands on it.
	Stays bool
	Bytes int64 // that would be free without it
}

// Drop lists what goes of a workspace's checkpoints, the oldest first: all of the last hour
// stay, then the newest of each hour for a day and of each day for a month, as far as there
// is room for them.
func Drop(list []Moment, now time.Time) map[string]bool {
	var bytes int64
	seen := map[time.Time]bool{}
	drop := map[string]bool{}
	for _, m := range slices.Backward(list) {
		if m.Stays {
			continue
		}
		bytes += m.Bytes
		age := now.Sub(m.Time)
		slot := m.Time
		switch {
		case age < time.Hour:
		case age < 24*time.Hour:
			slot = m.Time.Truncate(time.Hour)
		case age < 30*24*time.Hour:
			slot = m.Time.Truncate(24 * time.Hour)
		default:
			drop[m.ID] = true
		}
		if seen[slot] || bytes > quota {
			drop[m.ID] = true
		}
		seen[slot] = true
	}
	return drop
}
