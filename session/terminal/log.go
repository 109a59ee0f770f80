package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// maxOutput bounds the log of a terminal: a screen that is redrawn for weeks.
const maxOutput = 8 << 20

// Log keeps what a terminal shows, and of what would be too much the last half.
type Log struct {
	file *os.File
	size int64
}

// NewLog writes to a file that was opened for appending.
func NewLog(file *os.File) *Log { return &Log{file: file} }

func (l *Log) Write(p []byte) (int, error) {
	n, err := l.file.Write(p)
	if l.size += int64(n); err != nil || l.size < maxOutput {
		return n, err
	}
	tail := make([]byte, maxOutput/2)
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", l.file.Fd()))
	if err != nil {
		return n, err
	}
	defer r.Close()
	got, err := r.ReadAt(tail, l.size-int64(len(tail)))
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	if err := l.file.Truncate(0); err != nil {
		return n, err
	}
	kept, err := l.file.Write(tail[:got])
	l.size = int64(kept)
	return n, err
}
