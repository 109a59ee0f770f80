package service

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/internal/peercred"
	"cloister/kernel/lsm"
)

// answerWithin bounds an answer: the service may load the programs first, and a policy waits for
// the kernel's readers of the one before.
const answerWithin = 30 * time.Second

// waiting are events that no one has read yet; further ones are counted as dropped.
const waiting = 1024

// Client is a peer's end: the Backend of one session.
type Client struct {
	conn *passfd.Conn

	events  chan []byte
	answers chan Said
	gone    chan struct{} // closed when nothing more comes

	mu      sync.Mutex
	counts  lsm.Counts
	dropped uint64
	keys    map[identity]uint64
	closed  bool
	drained bool
}

// identity is one object under one name: what has the same is the same.
type identity struct {
	mount, ino   uint64
	major, minor uint32
	name         string
}

// Available says why there is no service for this process; nil where there is.
func Available() error {
	c, err := Dial()
	if err != nil {
		return err
	}
	return c.Close()
}

// Dial reaches the service, which is root's and has the programs of this version.
func Dial() (*Client, error) { return dial(Socket, 0) }

// absent says why there is none, and what would change that.
func absent(reason string, err error) error {
	fix := "have root install it: sudo cloister lsm install"
	if !lsm.Listed() {
		fix = "boot with bpf in the list of security modules (lsm=…,bpf), then: sudo cloister lsm install"
	}
	return &lsm.Unsupported{Reason: reason, Fix: fix, Err: err}
}

func dial(socket string, owner int) (*Client, error) {
	raw, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, absent("only root loads programs into the kernel, and its service for users is not there", err)
	}
	c := &Client{
		conn: passfd.New(raw, nil, maxSaid), events: make(chan []byte, waiting), answers: make(chan Said, 1),
		gone: make(chan struct{}), keys: map[identity]uint64{},
	}
	_, err = peercred.Require(raw, owner)
	if err == nil {
		err = raw.SetReadDeadline(time.Now().Add(answerWithin))
	}
	var hello Said
	if err == nil {
		hello, err = c.read()
	}
	switch {
	case err == nil && hello.Refused != "":
		err = errors.New(hello.Refused)
	case err == nil && hello.Objects != lsm.Version():
		err = errors.New("it is of another version")
	case err == nil:
		err = raw.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(absent("root's service for users does not serve this one", err), raw.Close())
	}
	go c.listen()
	return c, nil
}

func (c *Client) read() (m Said, err error) {
	line, err := c.conn.Read()
	if err == nil {
		err = exactjson.Unmarshal(line, &m)
	}
	return m, err
}

// listen reads what the service says until it is gone.
func (c *Client) listen() {
	defer close(c.gone)
	defer c.conn.Discard()
	for {
		m, err := c.read()
		if err != nil {
			return
		}
		switch {
		case m.Drained:
			c.mu.Lock()
			c.drained = true
			c.mu.Unlock()
			return
		case m.Counts != nil:
			c.mu.Lock()
			c.counts = *m.Counts
			c.mu.Unlock()
		case m.Done || m.Refused != "":
			select {
			case c.answers <- m:
			default: // none was asked for
			}
		case len(m.Event) > 0:
			select {
			case c.events <- m.Event:
			default:
				c.mu.Lock()
				c.dropped++
				c.mu.Unlock()
			}
		}
	}
}

// ask sends a message and waits for the answer.
func (c *Client) ask(a Asked, files ...*os.File) error {
	if err := c.send(a, files); err != nil {
		return err
	}
	late := time.NewTimer(answerWithin)
	defer late.Stop()
	select {
	case m := <-c.answers:
		return m.err()
	case <-c.gone:
	case <-late.C:
		return errors.New("root's service does not answer")
	}
	select {
	case m := <-c.answers: // its last word
		return m.err()
	default:
		return errGone
	}
}

// err is what an answer comes to.
func (m *Said) err() error {
	switch {
	case m.Judged:
		return lsm.ErrJudged
	case m.Refused != "":
		return errors.New("root's service refuses it: " + m.Refused)
	}
	return nil
}

var errGone = errors.New("root's service is gone")

func (c *Client) send(a Asked, files []*os.File) error {
	line, err := exactjson.Marshal(a)
	if err == nil {
		err = c.conn.Write(line, files, time.Now().Add(answerWithin))
	}
	if err != nil {
		return fmt.Errorf("ask root's service: %w", err)
	}
	return nil
}

// Attach makes a control group, by its folder, a session whose tasks open nothing yet.
func (c *Client) Attach(group *os.File) error { return c.ask(Asked{Attach: true}, group) }

// Label is a number of this client's own: the service knows the kernel's.
func (c *Client) Label(f *os.File) (uint64, error) {
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(int(f.Fd()), "", flags, unix.STATX_INO|unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	name := make([]byte, 2*unix.PathMax)
	n, err := unix.Readlinkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), name)
	if err != nil {
		return 0, err
	}
	id := identity{mount: st.Mnt_id, ino: st.Ino, major: st.Dev_major, minor: st.Dev_minor, name: string(name[:n])}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys[id] == 0 {
		c.keys[id] = uint64(len(c.keys)) + 1
	}
	return c.keys[id], nil
}

// Swap sends a policy and waits until it is in force.
func (c *Client) Swap(bits map[uint64]lsm.Bits, files map[uint64]*os.File) error {
	if len(files) > maxObjects {
		return fmt.Errorf("policies speak of %d files and folders above them; root's service takes %d", len(files), maxObjects)
	}
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(files)), together) {
		var list []Object
		var with []*os.File
		for _, k := range keys {
			b := bits[k]
			list = append(list, Object{Key: k, Permit: b.Permit, Forbid: b.Forbid, Held: b.Flags&lsm.HeldFlag != 0})
			with = append(with, files[k])
		}
		if err := c.send(Asked{Objects: list}, with); err != nil {
			return err
		}
	}
	s := Swap{Objects: len(files), None: bits == nil}
	if base, ok := bits[0]; ok {
		s.Permit, s.Forbid, s.Flags = base.Permit, base.Forbid, base.Flags
	}
	return c.ask(Asked{Swap: &s})
}

// Read waits for the next event.
func (c *Client) Read(until time.Time) ([]byte, error) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case raw := <-c.events: // also after the end: they came before
		return raw, nil
	default:
	}
	select {
	case raw := <-c.events:
		return raw, nil
	case <-late.C:
		return nil, os.ErrDeadlineExceeded
	case <-c.gone:
	}
	select {
	case raw := <-c.events:
		return raw, nil
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.drained {
		return nil, io.EOF
	}
	return nil, errGone
}

// Counts are the numbers that came last.
func (c *Client) Counts() (lsm.Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.counts
	out.Dropped += c.dropped
	select {
	case <-c.gone:
		if !c.drained {
			return out, errGone
		}
	default:
	}
	return out, nil
}

// Drain has Read give the events that there are, and then io.EOF.
func (c *Client) Drain() error {
	select {
	case <-c.gone:
		return nil
	default:
	}
	if err := c.send(Asked{Drain: true}, nil); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.closed = true
		return errors.Join(err, c.conn.Close())
	}
	return nil
}

// Close ends the session.
func (c *Client) Close() error {
	c.mu.Lock()
	was := c.closed
	c.closed = true
	c.mu.Unlock()
	if was {
		return nil
	}
	err := c.conn.Close()
	<-c.gone
	return err
}
