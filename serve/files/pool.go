package files

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// A Program is one run of [Serve] in a sandbox, from the host's end.
type Program struct {
	In    *os.File // to its standard input
	Out   *os.File // from its standard output
	Close func() error
}

// Pool gives a sandbox's files. Its zero value with Start set is ready.
type Pool struct {
	// Start runs the program in the sandbox.
	Start func(ctx context.Context) (*Program, error)
	// Record records a change before it is made; nil records nothing.
	Record func(ctx context.Context, action, path string) error

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// maxIdle is how many programs wait for a next request.
const maxIdle = 2

// within bounds a request that moves no content.
const within = 60 * time.Second

type conn struct {
	*Program
	r    *bufio.Reader
	w    *bufio.Writer
	used bool
}

// take gives an idle program, or starts one.
func (p *Pool) take(ctx context.Context, fresh bool) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errors.New("the sandbox is gone")
	}
	if n := len(p.idle); n > 0 && !fresh {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	prog, err := p.Start(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Program: prog, r: bufio.NewReaderSize(prog.Out, 64<<10), w: bufio.NewWriterSize(prog.In, 64<<10)}, nil
}

// give takes a program back that has answered whole.
func (p *Pool) give(c *conn) {
	c.used = true
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < maxIdle
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		_ = c.Close() // it is only ended
	}
}

// Warm starts a program before the first request needs it.
func (p *Pool) Warm(ctx context.Context) error {
	c, err := p.take(ctx, true)
	if err != nil {
		return err
	}
	p.give(c)
	return nil
}

// Close ends the idle programs. The others end with their requests.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, c := range idle {
		_ = c.Close() // it is only ended
	}
}

// check refuses what no kernel would take.
func check(paths ...string) error {
	for _, path := range paths {
		switch {
		case !strings.HasPrefix(path, "/"):
			return &Error{Invalid, fmt.Sprintf("path %q is not absolute", path)}
		case strings.ContainsRune(path, 0):
			return &Error{Invalid, "a path holds a zero byte"}
		case len(path) > maxPath:
			return &Error{Invalid, fmt.Sprintf("a path has more than %d bytes", maxPath)}
		}
	}
	return nil
}

func (p *Pool) record(ctx context.Context, action, path string) error {
	if p.Record == nil {
		return nil
	}
	return p.Record(ctx, action, path)
}

// ask sends a request and reads its first answer. A program that the payload ended while
// it waited is replaced once: nothing was done by it.
func (p *Pool) ask(ctx context.Context, q request) (*conn, answer, error) {
	for fresh := false; ; fresh = true {
		c, err := p.take(ctx, fresh)
		if err != nil {
			return nil, answer{}, err
		}
		stop := c.until(ctx)
		var a answer
		if err = writeLine(c.w, q); err == nil && q.Op != opWrite && q.Op != opUnpack && q.Op != opPack {
			err = readLine(c.r, &a)
		}
		stop()
		if err == nil {
			return c, a, nil
		}
		again := c.used && !fresh && ctx.Err() == nil
		_ = c.Close() // it is only ended
		if !again {
			return nil, a, broken(ctx, err)
		}
	}
}

// until ends a program's streams with the context.
func (c *conn) until(ctx context.Context) func() {
	stop := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_ = c.Out.SetReadDeadline(past) // one that cannot is ended below
		_ = c.In.SetWriteDeadline(past)
	})
	return func() { stop() }
}

func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the sandbox did not answer: %w", err)
}

func (a answer) err() error {
	if a.Code == "" {
		return nil
	}
	return &Error{a.Code, a.Message}
}

// simple asks what is answered in one line.
func (p *Pool) simple(ctx context.Context, q request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, a, err := p.ask(ctx, q)
	if err != nil {
		return a, err
	}
	p.give(c)
	return a, a.err()
}

func one(a answer, err error) (Entry, error) {
	if err != nil {
		return Entry{}, err
	}
	if a.Entry == nil {
		return Entry{}, errors.New("the sandbox gave no entry")
	}
	return *a.Entry, nil
}

// Usage adds up what the sandbox's processes use, of the machine that a folder is on.
func (p *Pool) Usage(ctx context.Context, path string) (Usage, error) {
	a, err := p.simple(ctx, request{Op: opUsage, Path: path})
	if u := a.Usage; err != nil || u == nil || min(u.Ticks, u.Bytes, u.Memory, u.Disk, u.DiskUsed) < 0 {
		return Usage{}, cmp.Or(err, errors.New("the sandbox gave no sum"))
	}
	return *a.Usage, nil
}

// Stat looks at one path; a link is described, not followed.
func (p *Pool) Stat(ctx context.Context, path string) (Entry, error) {
	if err := check(path); err != nil {
		return Entry{}, err
	}
	return one(p.simple(ctx, request{Op: opStat, Path: path}))
}

// List lists what is below a folder, depth levels deep.
func (p *Pool) List(ctx context.Context, path string, depth int) ([]Entry, error) {
	if err := check(path); err != nil {
		return nil, err
	}
	a, err := p.simple(ctx, request{Op: opList, Path: path, Depth: depth})
	if len(a.Entries) > MaxEntries {
		return nil, &Error{TooMuch, "the listing is too long"}
	}
	return a.Entries, err
}

// Mkdir makes a folder and those above it.
func (p *Pool) Mkdir(ctx context.Context, path string) (Entry, error) {
	if err := check(path); err != nil {
		return Entry{}, err
	}
	if err := p.record(ctx, "mkdir", path); err != nil {
		return Entry{}, err
	}
	return one(p.simple(ctx, request{Op: opMkdir, Path: path}))
}

// Move renames a file or a folder.
func (p *Pool) Move(ctx context.Context, from, to string) (Entry, error) {
	if err := check(from, to); err != nil {
		return Entry{}, err
	}
	if err := p.record(ctx, "move", from+" -> "+to); err != nil {
		return Entry{}, err
	}
	return one(p.simple(ctx, request{Op: opMove, Path: from, To: to}))
}

// Remove removes a file, or a folder with all that is in it.
func (p *Pool) Remove(ctx context.Context, path string) error {
	if err := check(path); err != nil {
		return err
	}
	if err := p.record(ctx, "remove", path); err != nil {
		return err
	}
	_, err := p.simple(ctx, request{Op: opRemove, Path: path})
	return err
}

// Write replaces a file's content by what from holds, and its metadata.
func (p *Pool) Write(ctx context.Context, path string, metadata map[string]string, from io.Reader) (Entry, error) {
	if err := check(path); err != nil {
		return Entry{}, err
	}
	// A program that the payload ended has taken a part of the content already: it is
	// asked for something small first.
	if _, err := p.Stat(ctx, "/"); err != nil {
		return Entry{}, err
	}
	if err := p.record(ctx, "write", path); err != nil {
		return Entry{}, err
	}
	a, err := p.send(ctx, request{Op: opWrite, Path: path, Metadata: metadata}, from)
	return one(a, err)
}

// send sends a request with content, and reads its answer.
func (p *Pool) send(ctx context.Context, q request, from io.Reader) (answer, error) {
	c, _, err := p.ask(ctx, q)
	if err != nil {
		return answer{}, err
	}
	defer c.until(ctx)()
	to := chunkWriter{c.w}
	_, err = io.CopyBuffer(to, from, make([]byte, maxChunk))
	if err == nil {
		err = to.end()
	}
	var a answer
	if err == nil {
		err = readLine(c.r, &a)
	}
	if err != nil {
		_ = c.Close() // the file keeps what had arrived
		return answer{}, broken(ctx, err)
	}
	p.give(c)
	return a, a.err()
}

// Pack writes a folder with all that is in it to w, as Unpack reads it.
func (p *Pool) Pack(ctx context.Context, path string, w io.Writer) error {
	if err := check(path); err != nil {
		return err
	}
	c, _, err := p.ask(ctx, request{Op: opPack, Path: path})
	if err != nil {
		return err
	}
	defer c.until(ctx)()
	var a answer
	_, err = io.Copy(w, &chunkReader{r: c.r})
	if err == nil {
		err = readLine(c.r, &a)
	}
	if err != nil {
		_ = c.Close() // it is only ended
		return broken(ctx, err)
	}
	p.give(c)
	return a.err()
}

// Unpack fills a folder with what Pack wrote.
func (p *Pool) Unpack(ctx context.Context, path string, from io.Reader) error {
	if err := check(path); err != nil {
		return err
	}
	if err := p.record(ctx, "unpack", path); err != nil {
		return err
	}
	_, err := p.send(ctx, request{Op: opUnpack, Path: path}, from)
	return err
}

// Read opens a file. The caller closes it.
func (p *Pool) Read(ctx context.Context, path string) (Entry, io.ReadCloser, error) {
	if err := check(path); err != nil {
		return Entry{}, nil, err
	}
	c, a, err := p.ask(ctx, request{Op: opRead, Path: path})
	if err != nil {
		return Entry{}, nil, err
	}
	if err := a.err(); err != nil {
		p.give(c)
		return Entry{}, nil, err
	}
	e, err := one(a, nil)
	if err != nil {
		_ = c.Close() // it is only ended
		return e, nil, err
	}
	return e, &content{chunkReader: chunkReader{r: c.r}, p: p, c: c, stop: c.until(ctx)}, nil
}

// content is a file that is being read.
type content struct {
	chunkReader
	p    *Pool
	c    *conn
	stop func()
}

// Close gives the program back where all was read.
func (r *content) Close() error {
	r.stop()
	if !r.over {
		return r.c.Close()
	}
	r.p.give(r.c)
	return nil
}

// Watch calls tell for each change below a folder until the context ends or the sandbox
// does. ready is called once when it watches.
func (p *Pool) Watch(
	ctx context.Context, path string, recursive, entry bool, ready func() error, tell func(Event) error,
) error {
	if err := check(path); err != nil {
		return err
	}
	c, a, err := p.ask(ctx, request{Op: opWatch, Path: path, Recursive: recursive, Entry: entry})
	if err != nil {
		return err
	}
	if err := a.err(); err != nil {
		p.give(c)
		return err
	}
	defer func() { _ = c.Close() }() // it is only ended
	defer c.until(ctx)()
	if err := ready(); err != nil {
		return err
	}
	for {
		var a answer
		if err := readLine(c.r, &a); err != nil {
			return broken(ctx, err)
		}
		if a.Event != nil {
			if err := tell(*a.Event); err != nil {
				return err
			}
		}
	}
}
