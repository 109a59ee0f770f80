package serve

import (
	"context"
	"fmt"
	"time"
)

// Usage measures the sandbox by a program inside: an ordinary user cannot know its processes from outside, and its
// machine may be another one.
func (s *Sandbox) Usage(ctx context.Context) (Usage, error) {
	pool, err := s.Files()
	if err != nil {
		return Usage{}, err
	}
	sum, err := pool.Usage(ctx, Home)
	if err != nil {
		return Usage{}, fmt.Errorf("measure sandbox: %w", err)
	}
	u := Usage{
		Time: time.Now().UTC(), CPUs: sum.CPUs, MemUsed: sum.Bytes, MemTotal: sum.Memory,
		DiskUsed: sum.DiskUsed, DiskTotal: sum.Disk,
	}
	const hertz = 100 // USER_HZ of every architecture that Go knows
	if age := time.Since(s.Record().Created).Seconds(); age > 0 {
		u.CPU = float64(sum.Ticks) / hertz / age * 100
	}
	return u, nil
}
