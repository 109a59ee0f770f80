package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what a sandbox uses at a moment.
type Usage struct {
	Time                time.Time
	CPUs                int
	CPU                 float64 // percent of one processor since the sandbox began
	MemUsed, MemTotal   int64
	DiskUsed, DiskTotal int64
}

// Usage measures the sandbox: its processes in the host's own accounts, and the disk that
// it shares.
func (s *Sandbox) Usage() (Usage, error) {
	live, err := s.entry()
	if err != nil {
		return Usage{}, err
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", live.Init))
	if err != nil {
		return Usage{}, fmt.Errorf("measure sandbox: %w", err)
	}
	u := Usage{Time: time.Now().UTC()}
	lists, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		return u, err
	}
	var ticks int64
	for _, name := range lists {
		if at, err := os.Readlink(name); err == nil && at == space {
			t, pages := account(filepath.Dir(filepath.Dir(name)))
			ticks += t
			u.MemUsed += pages * int64(os.Getpagesize())
		}
	}
	r := s.Record()
	const hertz = 100 // USER_HZ of every architecture that Go knows
	if age := time.Since(r.Created).Seconds(); age > 0 {
		u.CPU = float64(ticks) / hertz / age * 100
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

// account reads a process's ticks of processor time and pages of memory (proc(5)).
func account(dir string) (ticks, pages int64) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0 // it has ended
	}
	_, after, _ := strings.Cut(string(text[max(0, strings.LastIndexByte(string(text), ')')):]), " ")
	f := strings.Fields(after)
	if len(f) < 22 {
		return 0, 0
	}
	for _, n := range f[11:13] {
		t, _ := strconv.ParseInt(n, 10, 64) // the kernel writes numbers
		ticks += t
	}
	pages, _ = strconv.ParseInt(f[21], 10, 64) // the same
	return ticks, pages
}
