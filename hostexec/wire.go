package hostexec

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"cloister/internal/termsafe"
)

// Exit is the last word about a request.
type Exit struct {
	Status  int      `json:"status"`
	Refused string   `json:"refused,omitempty"` // why nothing ran
	Hints   []string `json:"hints,omitempty"`
}

// ReadRequest reads the head of a connection.
func ReadRequest(r *bufio.Reader) (Request, error) {
	var req Request
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxHead {
			return req, refuse("the request has more than %d bytes", maxHead)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return req, fmt.Errorf("read request: %w", err)
		}
	}
	if err := oneReading(line); err != nil {
		return req, refuse("the request is no request: %v", err)
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return req, refuse("the request is no request: %v", err)
	}
	return req, nil
}

// oneReading holds that a request can be read in one way only: one object with the
// fields of a Request, each at most once and in these letters. encoding/json takes the
// last of two, and a name in other letters for the same.
func oneReading(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	if at, err := d.Token(); err != nil || at != json.Delim('{') {
		return cmp.Or(err, errors.New("it is no object"))
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := name.(string)
		switch {
		case !slices.Contains([]string{"argv", "dir", "said"}, key):
			return fmt.Errorf("%q is none of its fields", termsafe.Clip(key, 64))
		case seen[key]:
			return fmt.Errorf("%q stands twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
	}
	return nil
}

// window is how much input may be on its way: what the command has not read yet
// is held here, so that the caller's signals and its end never wait behind it.
const window = 256 << 10

// Conn is the host's end of one request. Its writers may be used by several
// goroutines.
type Conn struct {
	r *bufio.Reader
	c net.Conn

	shown func(isErr bool, p []byte) // nil where no window shows it

	mu sync.Mutex // of writing

	signals chan byte
	arrived chan struct{} // there is input, or its end
	done    chan struct{} // the caller is gone, or Close was called

	in struct {
		sync.Mutex
		waiting [][]byte
		bytes   int
		over    bool
	}
}

// NewConn speaks frames behind the head that r has read of c. It reads all that
// comes, and calls gone when the caller went away or sends what it may not.
func NewConn(r *bufio.Reader, c net.Conn, gone func()) *Conn {
	conn := &Conn{r: r, c: c, signals: make(chan byte, 16), arrived: make(chan struct{}, 1), done: make(chan struct{})}
	go conn.listen(gone)
	return conn
}

func (c *Conn) listen(gone func()) {
	defer close(c.done)
	for {
		kind, payload, err := readFrame(c.r)
		switch {
		case err != nil:
		case kind == frameStdin:
			err = c.hold(payload)
		case kind == frameSignal && len(payload) == 1:
			select {
			case c.signals <- payload[0]:
			default: // so many at once say no more than those that wait
			}
		}
		if err != nil {
			gone()
			return
		}
	}
}

var errWindow = errors.New("more input than was asked for")

// hold keeps input until it is taken.
func (c *Conn) hold(payload []byte) error {
	c.in.Lock()
	defer c.in.Unlock()
	switch {
	case c.in.over:
		return nil
	case len(payload) == 0:
		c.in.over = true
	case c.in.bytes+len(payload) > window:
		return errWindow
	default:
		c.in.waiting, c.in.bytes = append(c.in.waiting, payload), c.in.bytes+len(payload)
	}
	select {
	case c.arrived <- struct{}{}:
	default:
	}
	return nil
}

// take gives input that has arrived; over says that there will be no more.
func (c *Conn) take() (payload []byte, over bool) {
	c.in.Lock()
	defer c.in.Unlock()
	if len(c.in.waiting) == 0 {
		return nil, c.in.over
	}
	payload, c.in.waiting = c.in.waiting[0], c.in.waiting[1:]
	c.in.bytes -= len(payload)
	return payload, false
}

// Show tells f too what the command writes. It is called before the command runs,
// and f by two goroutines.
func (c *Conn) Show(f func(isErr bool, p []byte)) { c.shown = f }

// Close closes the connection, and returns when nothing reads it any more.
func (c *Conn) Close() {
	_ = c.c.Close() // nothing more is wanted of it
	<-c.done
}

func (c *Conn) write(kind frameKind, payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return writeFrame(c.c, kind, payload)
}

// Notice tells the caller something while it waits.
func (c *Conn) Notice(text string) error { return c.write(frameNotice, []byte(text)) }

// Stdin is what the caller sends, until its end, or ctx's.
func (c *Conn) Stdin(ctx context.Context) io.Reader { return &input{c: c, ctx: ctx} }

// Stdout and Stderr are the caller's.
func (c *Conn) Stdout() io.Writer { return stream{c, frameStdout} }

// Stderr is where words for the caller's person go.
func (c *Conn) Stderr() io.Writer { return stream{c, frameStderr} }

// input is an io.Reader of the caller's input alone.
type input struct {
	c    *Conn
	ctx  context.Context
	rest []byte
}

func (i *input) Read(p []byte) (int, error) {
	for len(i.rest) == 0 {
		payload, over := i.c.take()
		if over {
			return 0, io.EOF
		}
		if len(payload) > 0 {
			// Whoever is gone asks for no more.
			_ = i.c.write(frameMore, binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
			i.rest = payload
			continue
		}
		select {
		case <-i.c.arrived:
		case <-i.c.done:
			return 0, io.ErrUnexpectedEOF
		case <-i.ctx.Done():
			return 0, i.ctx.Err()
		}
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// End is the last word.
func (c *Conn) End(e Exit) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("end request: %w", err)
	}
	return c.write(frameExit, text)
}
