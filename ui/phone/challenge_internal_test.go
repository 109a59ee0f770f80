package phone

import (
	"testing"
	"time"
)

// TestChallengeClocks: a challenge is old by whichever clock went further, and counts once
// although the time of day is set back, or the machine sleeps.
func TestChallengeClocks(t *testing.T) {
	day, there := time.Unix(1_000_000, 0), time.Minute
	c := newChallenges()
	c.clock = func() (time.Time, time.Duration) { return day, there }
	pass := func(days, runs time.Duration) { day, there = day.Add(days), there+runs }
	for name, steps := range map[string][2]time.Duration{
		"nothing":              {29 * time.Second, 29 * time.Second},
		"its time is over":     {30 * time.Second, 30 * time.Second},
		"the clock set back":   {-time.Hour, 30 * time.Second},
		"the machine slept":    {time.Hour, time.Second},
		"set back, and is new": {-time.Hour, time.Second},
	} {
		want := steps[0] < challengeLife && steps[1] < challengeLife
		text := c.fresh()
		pass(steps[0], steps[1])
		if got := c.use(text); got != want {
			t.Errorf("%s: it counts %t, want %t", name, got, want)
		}
	}
	text := c.fresh()
	pass(-time.Hour, time.Second)
	if !c.use(text) {
		t.Fatal("a new one does not count")
	}
	for range 4 {
		if pass(10*time.Second, 10*time.Second); c.use(c.fresh()) && c.use(text) {
			t.Error("it counts twice, after the clock was set back")
		}
	}
}
