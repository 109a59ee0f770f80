package session

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// diskEvery is how often the disks are looked at that a cloister may fill.
const diskEvery = 2 * time.Second

// Nearly full is less than a twentieth, but no more than so many bytes or files:
// a large disk has room left long after that.
const (
	lowBytes = 1 << 30
	lowFiles = 10_000
)

// room is what is left on a disk.
type room struct {
	bytes, files uint64
	low          bool
}

func roomOf(path string) (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return room{}, fmt.Errorf("look at the disk of %s: %w", path, err)
	}
	size := uint64(st.Bsize)
	r := room{bytes: st.Bavail * size, files: st.Ffree}
	r.low = r.bytes < min(st.Blocks*size/20, lowBytes) || r.files < min(st.Files/20, lowFiles)
	return r, nil
}

// watchDisk tells the person once when the disk of the project runs full while the
// command lives. There is no quota for it: what the agent writes is the project,
// and what fills the disk that the record is on lets nothing go out any more. It looks at once, so that what
// was full before the command is not said to be the command's doing.
func (s *Shim) watchDisk() (watch func(context.Context) (wait func())) {
	path := string(s.Project.Root)
	before, err := roomOf(path)
	if err != nil || before.low || s.Notify == nil || s.View.None || s.View.Overlay {
		return func(context.Context) func() { return func() {} }
	}
	return func(ctx context.Context) func() { return s.tellOfDisk(ctx, path) }
}

func (s *Shim) tellOfDisk(ctx context.Context, path string) (wait func()) {
	tell := func() (full bool) {
		now, err := roomOf(path)
		if err != nil || !now.low {
			return false
		}
		s.Notify(fmt.Sprintf("the disk of %s is nearly full: %d MiB and %d files are left, and nothing goes out once the "+
			"record cannot be written", path, now.bytes>>20, now.files))
		return true
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	sent := false
	go func() {
		defer close(done)
		tick := time.NewTicker(diskEvery)
		defer tick.Stop()
		for !sent {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				sent = tell()
			}
		}
	}()
	return func() {
		cancel()
		<-done
		if !sent { // a short command may have filled it
			tell()
		}
	}
}
