package beside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cloister/internal/termsafe"
)

// A journal keeps what a service writes: the first of it in a file, the last for an error.
type journal struct {
	in, out *os.File
	file    *os.File
	tail    tail
	done    chan struct{}
	err     error
}

// mostLog bounds a service's log; what comes after is passed over, so that a service which
// writes without end neither waits nor fills the disk.
const mostLog = 16 << 20

// openJournal begins the log of a start anew.
func openJournal(name string) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("keep its log: %w", err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep its log: %w", err)
	}
	j := &journal{file: f, done: make(chan struct{})}
	if j.out, j.in, err = os.Pipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("keep its log: %w", err), f.Close())
	}
	go j.copy()
	return j, nil
}

// pipe is where the service writes.
func (j *journal) pipe() *os.File { return j.in }

func (j *journal) copy() {
	defer close(j.done)
	left := mostLog
	buf := make([]byte, 32<<10)
	for {
		n, err := j.out.Read(buf)
		_, _ = j.tail.Write(buf[:n]) // it returns nil
		if some := min(n, left); some > 0 && j.err == nil {
			left -= some
			if _, werr := j.file.Write(buf[:some]); werr != nil {
				j.err = fmt.Errorf("keep its log: %w", werr)
			} else if left == 0 {
				_, j.err = fmt.Fprintf(j.file, "\n(the rest was not kept: a log has %d MiB at most)\n", mostLog>>20)
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && j.err == nil {
				j.err = err
			}
			return
		}
	}
}

// close ends it when nothing writes any more.
func (j *journal) close() error {
	err := j.in.Close()
	<-j.done
	return errors.Join(err, j.err, j.out.Close(), j.file.Close())
}

// last is what was written last, in lines that steer no terminal.
func (j *journal) last() string { return j.tail.text() }

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// tailBytes and tailLines bound what an error tells.
const (
	tailBytes = 2048
	tailLines = 10
)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = bytes.Clone(t.kept[over:])
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(t.kept), "\uFFFD"), "\n"), "\n")
	return termsafe.Lines(strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
}
