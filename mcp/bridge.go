package mcp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Bridge offers a program that speaks MCP on stdin and stdout as a server of
// Streamable HTTP. It judges nothing: it is behind the gate, in the place of a
// server elsewhere. The program is started by the first connection, and ends
// with the bridge.
type Bridge struct {
	// Name is what its clients know it by.
	Name string
	// Make makes the command anew, to be started; it sets no pipes.
	Make func() (*exec.Cmd, error)
	// Log receives what the program says on stderr, line by line, and how it ended.
	Log func(text string)
	// Began is called before a program starts, and Ended when it has been waited
	// for, or did not start. Both may be nil.
	Began, Ended func()
	// Hold makes a command one that someone holds with all that it starts; nil
	// leaves it in a process group of its own, which a program can leave.
	Hold func(*exec.Cmd) (*exec.Cmd, Holder, error)

	mu     sync.Mutex
	now    *program // nil where none runs
	closed bool
}

// A Holder holds a program: Started is called when it has started, End ends all of
// it, and Close tells how it ended when it has been waited for.
type Holder interface {
	Started() error
	End()
	Close() error
}

// group is a Holder of nothing but a process group.
type group struct{ cmd *exec.Cmd }

func (group) Started() error { return nil }
func (group) Close() error   { return nil }
func (g group) End()         { _ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

// program is one run of the command.
type program struct {
	holder  Holder
	session string
	gone    chan struct{} // closed when it has ended

	// writing is held while a frame is written, which lasts until the program reads
	// it; mu is not, as what the program says meanwhile must find its way.
	writing sync.Mutex
	in      io.WriteCloser

	mu      sync.Mutex
	waiting map[string]chan []byte // answers that a program waits for, by id
	events  chan []byte            // what the program says by itself
}

// mostEvents bounds what waits for a stream that no one reads.
const mostEvents = 256

// start gives the program that runs.
func (b *Bridge) start() (*program, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("the session has ended")
	}
	if b.now != nil {
		select {
		case <-b.now.gone:
		default:
			return b.now, nil
		}
	}
	c, err := b.Make()
	if err != nil {
		return nil, err
	}
	var holder Holder = group{c}
	if b.Hold != nil {
		if c, holder, err = b.Hold(c); err != nil {
			return nil, err
		}
	}
	// Its own group, so that what it starts ends with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, errIn := c.StdinPipe()
	out, errOut := c.StdoutPipe()
	errs, errErrs := c.StderrPipe()
	if err := errors.Join(errIn, errOut, errErrs); err != nil {
		return nil, errors.Join(fmt.Errorf("start MCP server: %w", err), holder.Close())
	}
	tell(b.Began)
	if err := c.Start(); err != nil {
		tell(b.Ended)
		return nil, errors.Join(fmt.Errorf("start MCP server: %w", err), holder.Close())
	}
	if err := holder.Started(); err != nil {
		b.Log(err.Error()) // it ends at once, as its waiter sees
	}
	p := &program{holder: holder, session: rand.Text(), in: in, gone: make(chan struct{}),
		waiting: map[string]chan []byte{}, events: make(chan []byte, mostEvents)}
	var read sync.WaitGroup
	read.Go(func() { p.listen(out) })
	read.Go(func() {
		lines := bufio.NewScanner(errs)
		for lines.Scan() {
			b.Log(lines.Text())
		}
		_, _ = io.Copy(io.Discard, errs) // a line too long for a log must not hold it up
	})
	go func() {
		read.Wait()
		err := errors.Join(c.Wait(), holder.Close())
		tell(b.Ended)
		b.Log(fmt.Sprintf("it has ended: %v", err))
		close(p.gone)
	}()
	b.now = p
	return p, nil
}

func tell(hook func()) {
	if hook != nil {
		hook()
	}
}

// Close ends the program with all that it has started, and waits for it.
func (b *Bridge) Close() {
	b.mu.Lock()
	b.closed = true
	p := b.now
	b.mu.Unlock()
	if p == nil {
		return
	}
	_ = p.in.Close() // MCP's own word for an end
	select {
	case <-p.gone:
	case <-time.After(300 * time.Millisecond):
	}
	p.holder.End() // it may have left others behind
	<-p.gone
}

// listen reads what the program says. A line that is no frame ends it: no one
// knows what it means.
func (p *program) listen(out io.Reader) {
	lines := bufio.NewReaderSize(out, 64<<10)
	for {
		line, err := ReadLine(lines, MaxFrame)
		if err != nil {
			p.holder.End()
			return
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) == 0 {
			continue
		}
		f, err := readFrame(line)
		if err != nil {
			p.holder.End()
			return
		}
		for _, m := range f.messages {
			p.said(m)
		}
	}
}

// said gives an answer to the request that waits for it, and the rest to the stream.
func (p *program) said(m message) {
	p.mu.Lock()
	wait := p.waiting[string(m.id)]
	if m.form == response && wait != nil {
		delete(p.waiting, string(m.id))
		p.mu.Unlock()
		wait <- m.value.raw // it has room
		return
	}
	p.mu.Unlock()
	select {
	case p.events <- m.value.raw:
	default: // no one reads, and the server must not wait for them
	}
}

// ServeHTTP is Streamable HTTP (2025-03-26 and later) with one session.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := b.start()
	if err != nil {
		b.Log(err.Error()) // it names files of the host, which are none of the cloister's business
		http.Error(w, "the server "+b.Name+" cannot be started", http.StatusBadGateway)
		return
	}
	w.Header().Set("Mcp-Session-Id", p.session)
	switch r.Method {
	case http.MethodPost:
		b.post(w, r, p)
	case http.MethodGet:
		p.stream(w, r)
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (b *Bridge) post(w http.ResponseWriter, r *http.Request, p *program) {
	text, err := io.ReadAll(io.LimitReader(r.Body, MaxFrame+1))
	if err != nil {
		return
	}
	f, err := readFrame(text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var waits []chan []byte
	var ids []string
	p.mu.Lock()
	for _, m := range f.messages {
		if m.form != request {
			continue
		}
		if p.waiting[string(m.id)] != nil {
			p.mu.Unlock()
			http.Error(w, "a request of this id is under way", http.StatusConflict)
			return
		}
		c := make(chan []byte, 1)
		p.waiting[string(m.id)] = c
		waits, ids = append(waits, c), append(ids, string(m.id))
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, id := range ids {
			delete(p.waiting, id)
		}
	}()
	if err := p.write(f); err != nil {
		http.Error(w, "the server takes no more", http.StatusBadGateway)
		return
	}
	if len(waits) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Accept"))
	if kind != "application/json" || strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		p.streamAnswers(r.Context(), w, waits)
		return
	}
	p.answer(r.Context(), w, f.batch, waits)
}

// write sends each message on a line of its own, in one spelling: a line end within
// one would make two of it.
func (p *program) write(f *frame) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	for _, m := range f.messages {
		line := strings.NewReplacer("\n", " ", "\r", " ").Replace(string(m.value.raw))
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// answer waits for all answers and gives them at once.
func (p *program) answer(ctx context.Context, w http.ResponseWriter, batch bool, waits []chan []byte) {
	var out [][]byte
	for _, c := range waits {
		select {
		case a := <-c:
			out = append(out, a)
		case <-p.gone:
			http.Error(w, "the server has ended", http.StatusBadGateway)
			return
		case <-ctx.Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	text := out[0]
	if batch {
		text = list(out)
	}
	_, _ = w.Write(text) // the client may have gone
}

// streamAnswers gives each answer as it comes, and what the program says meanwhile:
// it may ask something before it answers.
func (p *program) streamAnswers(ctx context.Context, w http.ResponseWriter, waits []chan []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	for _, c := range waits {
		for answered := false; !answered; {
			select {
			case a := <-c:
				p.before(w)
				event(w, a)
				answered = true
			case e := <-p.events:
				event(w, e)
			case <-p.gone:
				panic(http.ErrAbortHandler) // half an answer must not look whole
			case <-ctx.Done():
				return
			}
		}
	}
}

// before gives what the program said before an answer.
func (p *program) before(w http.ResponseWriter) {
	for {
		select {
		case e := <-p.events:
			event(w, e)
		default:
			return
		}
	}
}

// stream is what the program says by itself.
func (p *program) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // where it fails the next write does
	for {
		select {
		case e := <-p.events:
			event(w, e)
		case <-p.gone:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// event writes one message as one event.
func event(w http.ResponseWriter, text []byte) {
	text = []byte(strings.NewReplacer("\n", " ", "\r", " ").Replace(string(text)))
	_, _ = w.Write(slices.Concat([]byte("event: message\ndata: "), text, []byte("\n\n"))) // the client may have gone
	_ = http.NewResponseController(w).Flush()
}

// Serve serves one connection until it ends.
func (b *Bridge) Serve(ctx context.Context, conn net.Conn) {
	ln := &oneConn{conn: conn, done: make(chan struct{})}
	srv := &http.Server{Handler: b, ReadHeaderTimeout: 30 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	srv.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			ln.end()
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	_ = srv.Serve(ln) // it ends with the connection
}

// oneConn is a listener with one connection.
type oneConn struct {
	once sync.Once
	conn net.Conn
	done chan struct{}
	end1 sync.Once
}

func (l *oneConn) end() { l.end1.Do(func() { close(l.done) }) }

// Accept gives the connection, and then waits for its end.
func (l *oneConn) Accept() (net.Conn, error) {
	var c net.Conn
	l.once.Do(func() { c = l.conn })
	if c != nil {
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

// Close ends the wait.
func (l *oneConn) Close() error { l.end(); return nil }

// Addr is the connection's own.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
