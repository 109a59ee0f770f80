package watch

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// atOnce opens are asked about at once, and then one each pace: each costs a record and a look at a file, which
	// are not the box's.
	atOnce = 1000
	pace   = 50 * time.Millisecond
	// perLook bytes that are read for a digest count as one open more: 20 MiB in a second are a few hundredths of a
	// processor.
	perLook = 1 << 20
)

// look gives the digest of a file that has no more than so many bytes, when its turn has come. It is charged by what
// is read: by the size that it had, and by what it grew meanwhile.
func (a *asking) look(
	ctx context.Context, f *os.File, most int64, digest func(*os.File) (string, error),
) (string, error) {
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	size := fi.Size()
	if size > most {
		return "", fmt.Errorf("open %s: it has more than %d bytes", f.Name(), most)
	}
	if err := a.wait(ctx, size/perLook); err != nil {
		return "", err
	}
	a.looks.Lock()
	defer a.looks.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum, err := digest(f)
	if read, serr := f.Seek(0, io.SeekCurrent); serr == nil && read > size {
		a.count((read - size) / perLook)
	}
	return sum, err
}

// wait has too many calls come one after the other; n is for how many opens this counts.
func (a *asking) wait(ctx context.Context, n int64) error {
	until := a.count(n)
	if until <= 0 {
		return nil
	}
	t := time.NewTimer(until)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count takes the turns of so many opens, and gives how long it is until the last of them.
func (a *asking) count(n int64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if first := now.Add(-atOnce * pace); a.turn.Before(first) {
		a.turn = first
	}
	a.turn = a.turn.Add(time.Duration(n) * pace)
	return a.turn.Sub(now)
}
