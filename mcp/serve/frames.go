package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	strict "cloister/mcp"
)

// maxFrame bounds one line of a client: the content of the largest file that it may write,
// with its escapes.
const maxFrame = 4 << 20

// filtered is a client's two streams, of which the first is held to the strict reading.
type filtered struct {
	in   io.ReadCloser
	out  io.WriteCloser
	feed *io.PipeWriter
	done chan struct{}
}

// lines is a writer of whole lines, for two that write.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

func (l *lines) Close() error { return nil }

// filter reads lines from in, and passes on those that mean one thing to every reader. The
// goroutine ends with in, which is the caller's; what it still reads after end goes nowhere.
func filter(in io.Reader, out io.Writer) *filtered {
	r, w := io.Pipe()
	f := &filtered{in: r, out: &lines{to: out}, feed: w, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		_ = w.CloseWithError(f.pass(bufio.NewReaderSize(in, 64<<10)))
	}()
	return f
}

// end stops what is passed on.
func (f *filtered) end() { _ = f.in.Close() }

// errTooLong says that a line has no end within the bound: nothing after it can be trusted
// to be a frame.
var errTooLong = errors.New("a line of more than 4 MiB")

func (f *filtered) pass(from *bufio.Reader) error {
	for {
		line, err := readLine(from)
		if errors.Is(err, errTooLong) {
			f.fail(err)
			return io.EOF
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if bad := strict.Strict(line); bad != nil {
				f.fail(bad)
			} else if _, err := f.feed.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		if err != nil {
			return io.EOF
		}
	}
}

// readLine reads one line of at most maxFrame bytes.
func readLine(from *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		if len(line)+len(part) > maxFrame {
			return nil, errTooLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// fail answers a frame that cannot be read; it has no id that could be believed.
func (f *filtered) fail(why error) {
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil,
		"error": map[string]any{"code": -32700, "message": "cloister cannot read this: " + why.Error()},
	})
	if err == nil {
		_, _ = f.out.Write(append(text, '\n')) // a client that is gone ends the input too
	}
}
