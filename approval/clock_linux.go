package approval

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is CLOCK_BOOTTIME (clock_gettime(2)): timers of Go use CLOCK_MONOTONIC,
// which stands still while the machine sleeps.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // Linux has it since 2.6.39
	}
	return time.Duration(t.Nano())
}
