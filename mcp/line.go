package mcp

import (
	"bufio"
	"errors"
	"fmt"
)

// LongLine is the error for a line that is over its bound: nothing after it can be trusted
// to be a message.
type LongLine struct{ Most int }

// Error says the bound.
func (l *LongLine) Error() string { return fmt.Sprintf("a line of more than %d bytes", l.Most) }

// ReadLine reads one line with its end, of at most so many bytes. With io.EOF it gives what
// came before the end.
func ReadLine(from *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, &LongLine{most}
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
