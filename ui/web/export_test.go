package web

import "time"

// SetClock gives the door another clock.
func (d *Door) SetClock(now func() time.Time) { d.now = now }
