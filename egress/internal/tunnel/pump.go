package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cloister/egress/internal/buffer"
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
	// bulkStep is what the kernel copies before it is counted.
	bulkStep = 4 << 20
	// record is what one TLS record takes.
	record = 16 << 10
)

// A Pump copies one direction of a tunnel.
type Pump struct {
	dst, src net.Conn
	buffers  *buffer.Pool
	N        atomic.Int64       // bytes written to dst
	Check    func([]byte) error // of what is copied; nil for none
	// Edit appends to out what is passed on of b; nil passes it as it is.
	Edit  func(out, b []byte) ([]byte, error)
	held  []byte         // what Edit made
	quota *quota.Counter // that what is copied counts for; nil for none
	use   *quota.Host
	small []byte // of a direction that can only wait in Read

	mu     sync.Mutex
	quiet  time.Duration // silence that ends it; 0 for none
	halted bool
}

var (
	errHalted = errors.New("halted")
	ErrCheck  = errors.New("check")
)

// Limit makes the pump end after d of silence from now on.
func (p *Pump) Limit(d time.Duration) {
	p.mu.Lock()
	p.quiet = d
	p.mu.Unlock()
	p.arm(0)
}

// halt makes run return errHalted soon.
func (p *Pump) halt() {
	p.mu.Lock()
	p.halted = true
	p.mu.Unlock()
	p.arm(0)
}

// arm sets the read deadline: after d, or where d is 0 after the silence that
// is allowed. One lock for reading the wish and setting it, so that a limit or
// a halt that comes in between is not overwritten.
func (p *Pump) arm(d time.Duration) {
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

func (p *Pump) isHalted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted
}

func (p *Pump) isLimited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.quiet > 0
}

// run copies until src ends (nil), either side fails, or it is halted. An
// error of the writing side wraps sock.ErrWrite.
func (p *Pump) run() error {
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
func (p *Pump) trickle() (bool, error) {
	splices := p.Check == nil && p.Edit == nil && CanSplice(p.dst, p.src)
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
func (p *Pump) step() (int, error) {
	n, err := 0, error(nil)
	var data []byte
	if sock.Bare(p.src) == p.src {
		buf := p.buffers.Get()
		defer p.buffers.Put(buf)
		n, err = p.src.Read(buf[:])
		data = buf[:n]
	} else {
		n, err = p.readSmall()
		data = p.small[:n]
	}
	if n > 0 {
		if p.Check != nil {
			if cerr := p.Check(data); cerr != nil {
				return n, errors.Join(ErrCheck, cerr)
			}
		}
		if p.Edit != nil {
			var eerr error
			if p.held, eerr = p.Edit(p.held[:0], data); eerr != nil {
				return n, errors.Join(ErrCheck, eerr)
			}
			data = p.held
		}
		if serr := p.Spend(int64(n)); serr != nil {
			return n, serr
		}
		w, werr := p.dst.Write(data)
		p.N.Add(int64(w))
		if werr != nil {
			return n, errors.Join(sock.ErrWrite, werr)
		}
	}
	return n, err
}

// readSmall reads where the wait for bytes is Read's own, and so needs a buffer
// all the time: it grows with what comes, up to a record of TLS, of which a read never
// gives more than one.
func (p *Pump) readSmall() (int, error) {
	if p.small == nil {
		p.small = make([]byte, 1<<10)
	}
	n, err := p.src.Read(p.small)
	if n == len(p.small) && n < record && err == nil {
		grown := make([]byte, 4*n)
		copy(grown, p.small)
		p.small = grown
	}
	return n, err
}

// bulk lets the kernel copy until the direction pauses (ErrDeadlineExceeded),
// ends (nil) or fails. The pipe in between is empty whenever the deadline
// strikes, since only reading is limited.
func (p *Pump) bulk() error {
	for {
		p.arm(bulkIdle)
		n, more, err := p.splice()
		p.N.Add(n)
		if more {
			continue
		}
		if errors.Is(err, syscall.EPIPE) { // reading never gives it
			return errors.Join(sock.ErrWrite, err)
		}
		if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || p.isHalted() {
			return err
		}
	}
}

// splice copies to the end or, where bytes are counted, as much as may be
// counted at once: more says that there may be more.
func (p *Pump) splice() (n int64, more bool, err error) {
	if p.quota == nil {
		n, err = io.Copy(p.dst, p.src)
		return n, false, err
	}
	room := p.quota.Room(p.use, bulkStep)
	if room == 0 {
		return p.last()
	}
	n, err = io.Copy(p.dst, &io.LimitedReader{R: p.src, N: room})
	if serr := p.Spend(n); serr != nil {
		return n, false, serr
	}
	return n, err == nil && n == room, err
}

// last waits for a byte too many, where there is no room for one.
func (p *Pump) last() (n int64, more bool, err error) {
	var b [1]byte
	switch got, err := p.src.Read(b[:]); {
	case errors.Is(err, io.EOF):
		return 0, false, nil
	case got == 0:
		return 0, false, err
	}
	if err := p.Spend(1); err != nil {
		return 0, false, err
	}
	if _, err := p.dst.Write(b[:]); err != nil { // room was made meanwhile
		return 0, false, errors.Join(sock.ErrWrite, err)
	}
	return 1, true, nil
}

// Meter makes what is copied count.
func (p *Pump) Meter(q *quota.Counter, h *quota.Host) { p.quota, p.use = q, h }

// Spend counts n bytes that are about to be copied.
func (p *Pump) Spend(n int64) error {
	if p.quota == nil {
		return nil
	}
	return p.quota.Spend(p.use, n)
}
