package service

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/internal/peercred"
	"cloister/internal/termsafe"
	"cloister/kernel/lsm"
)

const (
	// mostEach bounds the sessions of one user, most those of all; objectsEach and objectsAll bound
	// what their policies speak of: each is a descriptor of this process.
	mostEach    = 64
	most        = 1024
	objectsEach = 150_000
	objectsAll  = 600_000
	// writeWithin bounds a message to a peer, and askWithin a peer's first.
	writeWithin = 5 * time.Second
	askWithin   = 10 * time.Second
	// countEvery is how often a peer learns that its session is there, and its numbers.
	countEvery = time.Second
)

// Loader gives the kernel what it judges by.
type Loader interface {
	// Attach makes a control group, by its folder, a session of a user's tasks.
	Attach(group *os.File, owner uint32) (lsm.Backend, error)
}

// Server answers peers.
type Server struct {
	Loader Loader
	Log    io.Writer // what was refused, a line each

	mu       sync.Mutex
	sessions map[int]int // of users
	objects  map[int]int
	all      int // objects
}

// Serve answers peers until the context is over, or the listener is closed. Sessions then stay in the
// kernel, and their peers notice.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			s.say(err)
			select {
			case <-ctx.Done():
			case <-time.After(countEvery): // descriptors come back as sessions end
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("serve the LSM: %w", err)
		}
		running.Go(func() {
			if err := s.peer(ctx, c); err != nil {
				s.say(err)
			}
		})
	}
}

func (s *Server) say(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.Log, "cloister lsm: %s\n", termsafe.Clip(err.Error(), 500))
}

// enter counts a session of a user, who may have so many.
func (s *Server) enter(uid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == nil {
		s.sessions, s.objects = map[int]int{}, map[int]int{}
	}
	all := 0
	for _, n := range s.sessions {
		all += n
	}
	if all >= most || s.sessions[uid] >= mostEach {
		return fmt.Errorf("uid %d has %d sessions, all have %d: no more", uid, s.sessions[uid], all)
	}
	s.sessions[uid]++
	return nil
}

func (s *Server) leave(uid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[uid]--; s.sessions[uid] == 0 {
		delete(s.sessions, uid)
		delete(s.objects, uid)
	}
}

// hold counts objects of a user in, or out.
func (s *Server) hold(uid, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && (s.objects[uid]+n > objectsEach || s.all+n > objectsAll) {
		return fmt.Errorf("uid %d has policies of %d files, all have %d: no more", uid, s.objects[uid], s.all)
	}
	s.objects[uid] += n
	s.all += n
	return nil
}

// peer serves one connection.
func (s *Server) peer(ctx context.Context, c *net.UnixConn) (err error) {
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	who, err := peercred.Of(c)
	if err != nil {
		return err
	}
	p := &peer{s: s, uid: who.UID, conn: passfd.New(c, nil, maxLine)}
	if p.account, err = account(who.UID); err == nil {
		err = s.enter(p.account)
	}
	if err != nil {
		p.refuse(err)
		return err
	}
	defer s.leave(p.account)
	defer p.conn.Discard() // counted: the file system of a peer's may let no descriptor be closed
	if err := p.send(Said{Objects: lsm.Version()}); err != nil {
		return nil // a peer that looks whether this is there
	}
	if err := c.SetReadDeadline(time.Now().Add(askWithin)); err != nil {
		return err
	}
	if gone, err := p.attach(); gone || err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, p.end(ctx))
	}()
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return p.serve()
}

// peer is one connection, and its session.
type peer struct {
	s       *Server
	uid     int
	account int // the uid that it is counted for
	conn    *passfd.Conn
	session lsm.Backend
	silent  chan struct{} // closed when no event is sent any more

	pending []object // sent, and not in force
	failed  error    // why they cannot be: their policy is refused, and what rules rules on
	ruling  []object

	mu   sync.Mutex
	keys map[uint64]uint64 // the peer's, by labels
}

type object struct {
	Object
	file *os.File
}

func (p *peer) send(m Said) error {
	line, err := exactjson.Marshal(m)
	if err != nil {
		return err
	}
	return p.conn.Write(line, nil, time.Now().Add(writeWithin))
}

func (p *peer) refuse(err error) {
	_ = p.send(Said{Refused: err.Error(), Judged: errors.Is(err, lsm.ErrJudged)})
}

// read is the next message with its descriptors; gone says that the peer is.
func (p *peer) read() (a Asked, files []*os.File, gone bool, err error) {
	line, err := p.conn.Read()
	if err != nil {
		return a, nil, true, nil // its end is no failure of ours
	}
	if a, err = decode(line); err == nil {
		files, err = p.conn.Take(a.files())
	}
	if err != nil {
		err = fmt.Errorf("uid %d: %w", p.uid, err)
	}
	return a, files, false, err
}

// attach takes the first message.
func (p *peer) attach() (gone bool, err error) {
	a, files, gone, err := p.read()
	defer closeAll(files)
	switch {
	case gone:
		return true, nil
	case err == nil && !a.Attach:
		err = fmt.Errorf("uid %d: the first message names no control group", p.uid)
	case err == nil:
		if err = owned(files[0], p.uid); err == nil {
			p.session, err = p.s.Loader.Attach(files[0], uint32(p.uid))
		}
	}
	if err != nil {
		p.refuse(err)
		return false, err
	}
	p.silent = make(chan struct{})
	go p.tell()
	return false, p.send(Said{Done: true})
}

// owned refuses a control group that is not the user's: whoever owns its folder may move tasks
// there, and end them.
func owned(group *os.File, uid int) error {
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(int(group.Fd()), "", flags, unix.STATX_TYPE|unix.STATX_UID, &st); err != nil {
		return fmt.Errorf("uid %d: look at the control group: %w", uid, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("uid %d: that is no control group", uid)
	case int(st.Uid) != uid:
		return fmt.Errorf("uid %d: the control group belongs to uid %d", uid, st.Uid)
	}
	return nil
}

// serve takes policies until the peer is gone.
func (p *peer) serve() error {
	for {
		a, files, gone, err := p.read()
		switch {
		case gone:
			return nil
		case err != nil:
		case a.Attach:
			err = fmt.Errorf("uid %d: it has a session", p.uid)
		case len(a.Objects) > 0:
			p.collect(a.Objects, files)
			continue
		case a.Drain:
			if err = p.session.Drain(); err == nil {
				continue
			}
		default:
			if why := p.swap(*a.Swap); why != nil {
				p.s.say(why)
				p.release(&p.pending)
				p.failed = nil
				p.refuse(why)
				continue
			}
		}
		if err != nil {
			closeAll(files)
			p.refuse(err)
			return err // and so the session ends
		}
		if err := p.send(Said{Done: true}); err != nil {
			return nil // the peer is gone
		}
	}
}

// collect keeps what the next policy speaks of.
func (p *peer) collect(list []Object, files []*os.File) {
	if p.failed == nil && len(p.pending)+len(list) > maxObjects {
		p.failed = fmt.Errorf("uid %d: a policy of more than %d objects", p.uid, maxObjects)
	}
	if p.failed == nil {
		p.failed = p.s.hold(p.account, len(list))
	}
	if p.failed != nil {
		closeAll(files)
		return
	}
	for i, o := range list {
		p.pending = append(p.pending, object{o, files[i]})
	}
}

// swap puts what was collected in force. What guards a session is never left out: no set-id program
// is to run under a policy of whoever calls it.
func (p *peer) swap(s Swap) error {
	if p.failed != nil {
		return p.failed
	}
	if s.Objects != len(p.pending) {
		return fmt.Errorf("uid %d: %d objects were sent, not %d", p.uid, len(p.pending), s.Objects)
	}
	bits, files, keys := map[uint64]lsm.Bits{}, map[uint64]*os.File{}, map[uint64]uint64{}
	for _, o := range p.pending {
		label, err := p.session.Label(o.file)
		if err != nil {
			return fmt.Errorf("uid %d: %w", p.uid, err)
		}
		b := bits[label]
		b.Permit |= o.Permit
		b.Forbid |= o.Forbid
		if o.Held {
			b.Flags |= lsm.HeldFlag
		}
		bits[label], files[label] = b, o.file
		if keys[label] == 0 || o.Forbid != 0 { // what a refusal names
			keys[label] = o.Key
		}
	}
	if s.None {
		bits = nil
	} else {
		bits[0] = lsm.Bits{Permit: s.Permit, Forbid: s.Forbid, Flags: s.Flags | lsm.GuardedFlag}
	}
	if err := p.session.Swap(bits, files); err != nil {
		return fmt.Errorf("uid %d: %w", p.uid, err)
	}
	p.mu.Lock()
	p.keys = keys
	p.mu.Unlock()
	p.release(&p.ruling)
	p.ruling, p.pending = p.pending, nil
	if counts, err := p.session.Counts(); err == nil {
		_ = p.send(Said{Counts: &counts}) // where the peer is gone, the answer finds that too
	}
	return nil
}

func (p *peer) release(list *[]object) {
	for _, o := range *list {
		o.file.Close()
	}
	_ = p.s.hold(p.account, -len(*list))
	*list = nil
}

// tell sends events and numbers until the session ends.
func (p *peer) tell() {
	defer close(p.silent)
	until := time.Now().Add(countEvery)
	for {
		raw, err := p.session.Read(until)
		switch {
		case err == nil:
			err = p.send(Said{Event: p.named(raw)})
		case errors.Is(err, os.ErrDeadlineExceeded):
			var counts lsm.Counts
			until = time.Now().Add(countEvery)
			if counts, err = p.session.Counts(); err == nil {
				err = p.send(Said{Counts: &counts})
			}
		case errors.Is(err, io.EOF):
			_ = p.send(Said{Drained: true})
			return
		}
		if err != nil {
			_ = p.conn.EndRead() // which ends serve
			return
		}
	}
}

// named is an event with the peer's key in the place of the label (bpf/lsm.bpf.c, struct event).
func (p *peer) named(raw []byte) []byte {
	const at = 8
	if len(raw) < at+8 {
		return raw
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	binary.NativeEndian.PutUint64(raw[at:], p.keys[binary.NativeEndian.Uint64(raw[at:])])
	return raw
}

// end ends the session, unless the service ends: then the kernel judges on.
func (p *peer) end(ctx context.Context) error {
	err := p.session.Drain()
	<-p.silent
	if ctx.Err() == nil {
		err = errors.Join(err, p.session.Close())
	}
	p.release(&p.pending)
	p.release(&p.ruling)
	return err
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
