package terminal

import (
	"context"
	"fmt"
	"time"
)

// WatchIdle asks for the end when nothing was typed or written for a time.
func (h *Hub) WatchIdle(ctx context.Context, limit time.Duration, end chan<- string) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		left := limit - time.Since(h.Active())
		if left <= 0 {
			end <- fmt.Sprintf("nothing was typed or written for %s", limit)
			return
		}
		timer.Reset(left)
	}
}
