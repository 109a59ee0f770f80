// Package feed gives a program its standard input: some bytes first, and then what the caller's own has.
//
// The promise: the program reads the first bytes before any of the caller's, and after [Feed.End] nothing more
// is read of that, so that a shell has what was typed later. What is read ahead and the program did not take is lost,
// as with every program that reads ahead. It starts no program. Most readers want [New].
package feed

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Feed is one input.
type Feed struct {
	first     []byte
	in        *os.File // nil for no more than first
	r, w      *os.File // the program's pipe
	ended     *os.File // readable once the feed is to end
	end       *os.File
	once      sync.Once
	copied    sync.WaitGroup
	beginning sync.Once
}

// New makes the input of a program that is yet to be started. in stays the caller's, and may be nil.
func New(first []byte, in *os.File) (*Feed, error) {
	f := &Feed{first: first, in: in}
	var err error
	if f.r, f.w, err = os.Pipe(); err == nil {
		f.ended, f.end, err = os.Pipe()
	}
	if err != nil {
		f.End()
		return nil, fmt.Errorf("make the input: %w", err)
	}
	return f, nil
}

// Input is the program's standard input.
func (f *Feed) Input() *os.File { return f.r }

// Begin writes, from when the program runs and has its descriptor.
func (f *Feed) Begin() {
	f.beginning.Do(func() {
		_ = f.r.Close() // the program's alone from here on: a write fails when that is gone
		f.copied.Go(func() {
			defer f.w.Close()
			if _, err := f.w.Write(f.first); err == nil && f.in != nil {
				f.copy()
			}
		})
	})
}

// End ends the feed, and waits until nothing reads the caller's input.
func (f *Feed) End() {
	f.once.Do(func() {
		for _, one := range []*os.File{f.end, f.w, f.r} {
			if one != nil {
				_ = one.Close() // of pipes that were only written to or read
			}
		}
		f.copied.Wait()
		if f.ended != nil {
			_ = f.ended.Close()
		}
	})
}

// copy passes the caller's input on until that ends, the program reads no more or the feed is to end.
func (f *Feed) copy() {
	in, ended := int(f.in.Fd()), int(f.ended.Fd())
	buf := make([]byte, 32<<10)
	for {
		ready := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: int32(ended), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		if ready[1].Revents != 0 {
			return
		}
		if ready[0].Revents == 0 {
			continue
		}
		n, err := unix.Read(in, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if n <= 0 {
			return // its end, or a terminal that is gone
		}
		if _, err := f.w.Write(buf[:n]); err != nil {
			return
		}
	}
}
