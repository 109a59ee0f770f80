//go:build !linux

package approval

import "time"

// sinceBoot stands still here: timers alone end questions.
func sinceBoot() time.Duration { return 0 }
