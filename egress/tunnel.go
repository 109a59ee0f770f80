package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cloister/egress/internal/quota"
	"cloister/egress/internal/sock"
)

const (
	// After bulkAfter bytes without a pause a direction is spliced by the
	// kernel. A spliced copy holds a pipe (two descriptors, 64 KiB that count
	// against fs.pipe-user-pages-soft of an ordinary user) also while it waits,
	// so a direction that falls silent for bulkIdle gives its pipe back.
	bulkAfter = 64 << 10
	bulkIdle  = time.Second
	pumpSize  = 32 << 10
	// bulkStep is what the kernel copies before it is counted.
	bulkStep = 4 << 20
)

// buffers are shared by all pumps of an engine; a waiting pump holds none.
type buffers struct{ pool sync.Pool }

func (b *buffers) get() *[pumpSize]byte {
	if p, ok := b.pool.Get().(*[pumpSize]byte); ok {
		return p
	}
	return new([pumpSize]byte)
}

func (b *buffers) put(p *[pumpSize]byte) { b.pool.Put(p) }

// A pump copies one direction of a tunnel.
type pump struct {
	dst, src net.Conn
	buffers  *buffers
	n        atomic.Int64       // bytes written to dst
	check    func([]byte) error // of what is copied; nil for none
	// edit appends to out what is passed on of b; nil passes it as it is.
	edit  func(out, b []byte) ([]byte, error)
	held  []byte         // what edit made
	quota *quota.Counter // that what is copied counts for; nil for none
	use   *quota.Host
	small []byte // of a direction that can only wait in Read

	mu     sync.Mutex
	quiet  time.Duration // silence that ends it; 0 for none
	halted bool
}

var (
	errHalted = errors.New("halted")
	errWrite  = errors.New("write")
	errCheck  = errors.New("check")
)

// limit makes the pump end after d of silence from now on.
func (p *pump) limit(d time.Duration) {
	p.mu.Lock()
	p.quiet = d
	p.mu.Unlock()
	p.arm(0)
}

// halt makes run return errHalted soon.
func (p *pump) halt() {
	p.mu.Lock()
	p.halted = true
	p.mu.Unlock()
	p.arm(0)
}

// arm sets the read deadline: after d, or where d is 0 after the silence that
// is allowed. One lock for reading the wish and setting it, so that a limit or
// a halt that comes in between is not overwritten.
func (p *pump) arm(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d == 0 {
		d = p.quiet
	}
	var t time.Time
	switch {
	case p.halted:
		t = time.Unix(1, 0)
	case d > 0:
		t = time.Now().Add(d)
	}
	_ = p.src.SetReadDeadline(t) // fails on a closed connection only, as the read will
}

func (p *pump) isHalted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted
}

func (p *pump) isLimited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quiet > 0
}

// run copies until src ends (nil), either side fails, or it is halted. An
// error of the writing side wraps errWrite.
func (p *pump) run() error {
	p.arm(0)
	for {
		bulk, err := p.trickle()
		if err == nil && bulk {
			err = p.bulk()
			if errors.Is(err, os.ErrDeadlineExceeded) && !p.isHalted() {
				p.arm(0)
				continue
			}
		}
		if err != nil && p.isHalted() {
			return errHalted
		}
		return err
	}
}

// trickle copies through memory until the direction shows itself busy (true)
// or ends (false).
func (p *pump) trickle() (bool, error) {
	splices := p.check == nil && p.edit == nil && canSplice(p.dst, p.src)
	for burst := 0; ; {
		waited, err := sock.WaitReadable(p.src)
		if err != nil {
			return false, err
		}
		if waited {
			burst = 0
		}
		n, err := p.step()
		burst += n
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case splices && burst >= bulkAfter:
			return true, nil
		}
		if p.isLimited() {
			p.arm(0)
		}
	}
}

// step copies what one read gives.
func (p *pump) step() (int, error) {
	n, err := 0, error(nil)
	var data []byte
	if bare(p.src) == p.src {
		buf := p.buffers.get()
		defer p.buffers.put(buf)
		n, err = p.src.Read(buf[:])
		data = buf[:n]
	} else {
		n, err = p.readSmall()
		data = p.small[:n]
	}
	if n > 0 {
		if p.check != nil {
			if cerr := p.check(data); cerr != nil {
				return n, errors.Join(errCheck, cerr)
			}
		}
		if p.edit != nil {
			var eerr error
			if p.held, eerr = p.edit(p.held[:0], data); eerr != nil {
				return n, errors.Join(errCheck, eerr)
			}
			data = p.held
		}
		if serr := p.spend(int64(n)); serr != nil {
			return n, serr
		}
		w, werr := p.dst.Write(data)
		p.n.Add(int64(w))
		if werr != nil {
			return n, errors.Join(errWrite, werr)
		}
	}
	return n, err
}

// readSmall reads where the wait for bytes is Read's own, and so needs a buffer
// all the time: it grows with what comes, up to a record of TLS, of which a read never
// gives more than one.
func (p *pump) readSmall() (int, error) {
	if p.small == nil {
		p.small = make([]byte, 1<<10)
	}
	n, err := p.src.Read(p.small)
	if n == len(p.small) && n < mostHeld && err == nil {
		grown := make([]byte, 4*n)
		copy(grown, p.small)
		p.small = grown
	}
	return n, err
}

// bulk lets the kernel copy until the direction pauses (ErrDeadlineExceeded),
// ends (nil) or fails. The pipe in between is empty whenever the deadline
// strikes, since only reading is limited.
func (p *pump) bulk() error {
	for {
		p.arm(bulkIdle)
		n, more, err := p.splice()
		p.n.Add(n)
		if more {
			continue
		}
		if errors.Is(err, syscall.EPIPE) { // reading never gives it
			return errors.Join(errWrite, err)
		}
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || p.isHalted() {
			return err
		}
	}
}

// splice copies to the end or, where bytes are counted, as much as may be
// counted at once: more says that there may be more.
func (p *pump) splice() (n int64, more bool, err error) {
	if p.quota == nil {
		n, err = io.Copy(p.dst, p.src)
		return n, false, err
	}
	room := p.quota.Room(p.use, bulkStep)
	if room == 0 {
		return p.last()
	}
	n, err = io.Copy(p.dst, &io.LimitedReader{R: p.src, N: room})
	if serr := p.spend(n); serr != nil {
		return n, false, serr
	}
	return n, err == nil && n == room, err
}

// last waits for a byte too many, where there is no room for one.
func (p *pump) last() (n int64, more bool, err error) {
	var b [1]byte
	switch got, err := p.src.Read(b[:]); {
	case errors.Is(err, io.EOF):
		return 0, false, nil
	case got == 0:
		return 0, false, err
	}
	if err := p.spend(1); err != nil {
		return 0, false, err
	}
	if _, err := p.dst.Write(b[:]); err != nil { // room was made meanwhile
		return 0, false, errors.Join(errWrite, err)
	}
	return 1, true, nil
}

// meter makes what is copied count.
func (p *pump) meter(q *quota.Counter, h *quota.Host) { p.quota, p.use = q, h }

func (p *pump) spend(n int64) error {
	if p.quota == nil {
		return nil
	}
	return p.quota.Spend(p.use, n)
}

// canSplice reports whether io.Copy between the two is the kernel's.
func canSplice(dst, src net.Conn) bool {
	_, d := dst.(*net.TCPConn)
	_, s := src.(*net.TCPConn)
	return d && s
}

// A tunnel is two pumps with one fate: the end of one direction is passed on
// as a half-close, a failure ends both. The downward one may start earlier.
type tunnel struct {
	up, down   *pump
	halfClosed time.Duration
	done       chan error // of down
}

func newTunnel(client, upstream net.Conn, b *buffers, halfClosed time.Duration) *tunnel {
	return &tunnel{
		up:         &pump{dst: upstream, src: client, buffers: b},
		down:       &pump{dst: client, src: upstream, buffers: b},
		halfClosed: halfClosed,
		done:       make(chan error, 1),
	}
}

// startDown lets the upstream speak. Whoever calls it calls finish or haltDown.
func (t *tunnel) startDown() {
	go func() { t.done <- t.direction(t.down, t.up) }()
}

// haltDown stops what startDown began, and reports whether the upstream had said
// nothing at all and still can.
func (t *tunnel) haltDown() bool {
	t.down.halt()
	err := <-t.done
	_ = t.down.src.SetReadDeadline(time.Time{}) // as above: a closed one tells later
	return errors.Is(err, errHalted) && t.down.n.Load() == 0
}

// finish copies upward, and returns when both directions have ended.
func (t *tunnel) finish() error {
	err := t.direction(t.up, t.down)
	return errors.Join(err, <-t.done)
}

// direction runs one pump and passes its end on.
func (t *tunnel) direction(p, other *pump) error {
	err := p.run()
	switch {
	case errors.Is(err, errHalted):
	case err == nil:
		// A peer that is gone for good looks the same as one that only ended
		// its sending, so the other direction may not be silent for ever.
		other.limit(t.halfClosed)
		if closeWrite(p.dst) != nil {
			return nil // it is gone already; the other direction sees that
		}
	case errors.Is(err, errWrite):
		// What the receiver sent before it went may still be on its way down.
		other.limit(t.halfClosed)
	default:
		reset(p.dst)
		reset(p.src)
	}
	return err
}
