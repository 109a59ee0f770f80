package aging_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cloister/state/aging"
)

// Whatever the list is, what stays is never dropped, the newest hour goes for room alone, and
// who drops again what was left drops nothing more.
func TestDrop(t *testing.T) {
	now := time.Date(2026, 3, 20, 12, 30, 0, 0, time.UTC)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		var list []aging.Moment
		at := now.Add(-time.Duration(r.IntN(50*24)) * time.Hour)
		for i := 0; at.Before(now); i++ {
			list = append(list, aging.Moment{
				ID: fmt.Sprint(i), Time: at, Stays: r.IntN(4) == 0, Bytes: int64(r.IntN(40)) << 20,
			})
			at = at.Add(time.Duration(r.IntN(1<<r.IntN(12))+1) * time.Minute)
		}
		drop := aging.Drop(list, now)
		var left []aging.Moment
		var bytes int64
		for _, m := range list {
			if !drop[m.ID] {
				left = append(left, m)
				if !m.Stays {
					bytes += m.Bytes
				}
			} else if m.Stays {
				t.Fatalf("seed %d: %s stays, and is dropped", seed, m.ID)
			}
		}
		if bytes > 2<<30 {
			t.Fatalf("seed %d: %d bytes are left of automatic ones", seed, bytes)
		}
		if again := aging.Drop(left, now); len(again) != 0 {
			t.Fatalf("seed %d: what was left loses %v", seed, again)
		}
		hours := map[time.Time]string{}
		for _, m := range left {
			if age := now.Sub(m.Time); m.Stays || age < time.Hour || age >= 24*time.Hour {
				continue
			}
			hour := m.Time.Truncate(time.Hour)
			if hours[hour] != "" {
				t.Fatalf("seed %d: %s and %s are of one hour", seed, hours[hour], m.ID)
			}
			hours[hour] = m.ID
		}
	}
}

func TestDropOfYesterday(t *testing.T) {
	now := time.Date(2026, 3, 20, 12, 30, 0, 0, time.UTC)
	list := []aging.Moment{
		{ID: "month", Time: now.Add(-31 * 24 * time.Hour)},
		{ID: "named", Time: now.Add(-31 * 24 * time.Hour), Stays: true},
		{ID: "first", Time: now.Add(-50 * time.Hour)},
		{ID: "newest of its day", Time: now.Add(-49 * time.Hour)},
		{ID: "hour", Time: now.Add(-40 * time.Minute)},
		{ID: "now", Time: now},
	}
	drop := aging.Drop(list, now)
	if len(drop) != 2 || !drop["month"] || !drop["first"] {
		t.Errorf("dropped %v", drop)
	}
}
