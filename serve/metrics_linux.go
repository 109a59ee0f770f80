package serve

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Usage measures the sandbox: its processes as a program inside adds them up, since an
// ordinary user cannot know them from outside, and the disk that it shares.
func (s *Sandbox) Usage(ctx context.Context) (Usage, error) {
	pool, err := s.Files()
	if err != nil {
		return Usage{}, err
	}
	sum, err := pool.Usage(ctx)
	if err != nil {
		return Usage{}, fmt.Errorf("measure sandbox: %w", err)
	}
	u := Usage{Time: time.Now().UTC(), MemUsed: sum.Bytes}
	r := s.Record()
	const hertz = 100 // USER_HZ of every architecture that Go knows
	if age := time.Since(r.Created).Seconds(); age > 0 {
		u.CPU = float64(sum.Ticks) / hertz / age * 100
	}
	u.CPUs = runtime.NumCPU()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err == nil {
		u.MemTotal = int64(uint64(info.Totalram) * uint64(info.Unit))
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(s.dir(), &disk); err == nil {
		u.DiskTotal = int64(disk.Blocks) * disk.Bsize
		u.DiskUsed = u.DiskTotal - int64(disk.Bavail)*disk.Bsize
	}
	return u, nil
}
