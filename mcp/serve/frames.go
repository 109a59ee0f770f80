package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	strict "cloister/mcp"
)

// maxFrame bounds one line of a client: the content of the largest file that it may write,
// with its escapes.
const maxFrame = 4 << 20

// lastAnswers bounds how long the input stays open for calls under way, when the client has
// closed it: the library ends them with the input.
const lastAnswers = 5 * time.Second

// filtered is a client's two streams, of which the first is held to the strict reading.
type filtered struct {
	in   io.ReadCloser
	out  *lines
	feed *io.PipeWriter
	done chan struct{}
	// stopped is closed when nothing is to be passed on any more.
	stopped chan struct{}
}

// lines is a writer of whole lines, for two that write. It counts the answers.
type lines struct {
	mu      sync.Mutex
	to      io.Writer
	waiting int // requests passed on, less the answers
	none    chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting > 0 && isMessage(p, false) {
		if l.waiting--; l.waiting == 0 && l.none != nil {
			close(l.none)
			l.none = nil
		}
	}
	return l.to.Write(p)
}

// passed counts a request.
func (l *lines) passed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting++
}

// answered is closed once every request has its answer.
func (l *lines) answered() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := make(chan struct{})
	if l.waiting == 0 {
		close(c)
	} else {
		l.none = c
	}
	return c
}

// isMessage reports whether a line is a request, or an answer to one.
func isMessage(line []byte, request bool) bool {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
	}
	return json.Unmarshal(line, &m) == nil && len(m.ID) > 0 && string(m.ID) != "null" && (m.Method != nil) == request
}

func (l *lines) Close() error { return nil }

// filter reads lines from in, and passes on those that mean one thing to every reader. The
// goroutine ends with in, which is the caller's; what it still reads after end goes nowhere.
func filter(in io.Reader, out io.Writer) *filtered {
	r, w := io.Pipe()
	f := &filtered{in: r, out: &lines{to: out}, feed: w, done: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(f.done)
		_ = w.CloseWithError(f.pass(bufio.NewReaderSize(in, 64<<10)))
	}()
	return f
}

// end stops what is passed on.
func (f *filtered) end() {
	close(f.stopped)
	_ = f.in.Close()
}

// errTooLong says that a line has no end within the bound: nothing after it can be trusted
// to be a frame.
var errTooLong = errors.New("a line of more than 4 MiB")

func (f *filtered) pass(from *bufio.Reader) error {
	for {
		line, err := readLine(from)
		if errors.Is(err, errTooLong) {
			f.fail(err)
			return f.over()
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if bad := strict.Strict(line); bad != nil {
				f.fail(bad)
			} else {
				if isMessage(line, true) {
					f.out.passed()
				}
				if _, err := f.feed.Write(append(line, '\n')); err != nil {
					return err
				}
			}
		}
		if err != nil {
			return f.over()
		}
	}
}

// over ends the input once calls under way have their answers.
func (f *filtered) over() error {
	select {
	case <-f.out.answered():
	case <-f.stopped:
	case <-time.After(lastAnswers):
	}
	return io.EOF
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
