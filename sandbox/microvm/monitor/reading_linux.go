package monitor

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// reading is what of a command's descriptors is read. A blocked Read would keep its file open past Close: whoever
// asked for a command with a terminal waits until no one has that open, and nothing else would end the Read. The
// files are others' too, so that none is made to not block.
type reading struct {
	r, w *os.File // a pipe, of which the end ends all
	over sync.WaitGroup
}

func newReading() (*reading, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &reading{r: r, w: w}, nil
}

// of has do read a file, until its end or that of all.
func (in *reading) of(f *os.File, do func(io.Reader)) {
	from := polled{f: f, fds: [2]unix.PollFd{
		{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(in.r.Fd()), Events: unix.POLLIN}}}
	in.over.Go(func() { do(from) })
}

// end ends all, and waits for none.
func (in *reading) end() {
	_ = in.w.Close()
	go func() {
		in.over.Wait()
		_ = in.r.Close()
	}()
}

// polled waits for what can be read before it reads.
type polled struct {
	f   *os.File
	fds [2]unix.PollFd
}

func (p polled) Read(buf []byte) (int, error) {
	for {
		fds := p.fds
		_, err := unix.Poll(fds[:], -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, err
		case fds[1].Revents != 0:
			return 0, io.EOF
		default:
			return p.f.Read(buf)
		}
	}
}
