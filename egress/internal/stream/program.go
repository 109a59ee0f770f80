package stream

import (
	"errors"
	"io"
	"os"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/wire"
	"cloister/internal/budget"
)

// A Program is the end of a stream that is inside, with the bytes that were read of it.
type Program struct {
	*peek.Source

	handshake time.Duration // for a head that has begun
	deadline  time.Time     // by which it must have been read
	Alert     string        // with which it ended TLS
}

// IsSSH waits for as much of a banner as tells.
func (p *Program) IsSSH() bool {
	const banner = "SSH-2.0-"
	for {
		n := min(len(p.Held()), len(banner))
		switch {
		case string(p.Held()[:n]) != banner[:n]:
			return false
		case n == len(banner):
			return true
		case p.Fill(wire.MaxHello) != nil:
			return false
		}
	}
}

// EndOf says in plain words how reading ended.
func EndOf(err error) string {
	switch {
	case errors.Is(err, io.EOF):
		return "the program closed the connection"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "not there in time"
	case errors.Is(err, peek.ErrTooLong):
		return "too long"
	case errors.Is(err, budget.ErrFull):
		return err.Error()
	}
	return "the connection broke"
}

// ReadBy sets the time by which the client must have been read; 0 for none.
func (p *Program) ReadBy(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	p.deadline = t
	_ = p.SetReadDeadline(t) // fails on a closed connection only, as the read will
}

// readSoon is readBy of at most d and hardly less: a deadline that is there already
// and will do is left, since each that is set may wake a thread.
func (p *Program) readSoon(d time.Duration) {
	if left := time.Until(p.deadline); left > d || left < d-d/4 {
		p.ReadBy(d)
	}
}

// Await waits for the first byte of the next head.
func (p *Program) Await(wait time.Duration) bool {
	if len(p.Held()) > 0 {
		return true
	}
	p.Drop()
	p.readSoon(wait)
	err := p.Fill(wire.MaxHead)
	if err != nil {
		p.Alert = dial.AlertOf(err)
	}
	return err == nil
}

// ReadRequest reads one head off the client.
func (p *Program) ReadRequest() (*wire.Request, error) {
	head, err := ReadHead(p.Source, func() { p.ReadBy(p.handshake) })
	if err != nil {
		return nil, err
	}
	return wire.ParseRequest(head)
}

// ReadHead reads as much of src as makes one head; what follows it stays. short,
// where not nil, is called once where what is here is not all of it.
func ReadHead(src *peek.Source, short func()) ([]byte, error) {
	var scan wire.HeadScan
	for {
		n, err := scan.Next(src.Held())
		switch {
		case err == nil:
			return src.Take(n), nil
		case !errors.Is(err, wire.ErrShort):
			return nil, err
		}
		if short != nil {
			short()
			short = nil
		}
		if err := src.Fill(wire.MaxHead + peek.First); err != nil {
			return nil, err
		}
	}
}

// Parse feeds a parser until it has what it needs, and takes that.
func (p *Program) Parse(f func([]byte) (int, error)) error {
	for {
		n, err := f(p.Held())
		if err == nil {
			p.Take(n)
			return nil
		}
		if !errors.Is(err, wire.ErrShort) {
			return err
		}
		if err := p.Fill(peek.First); err != nil {
			return errors.New("socks5: " + EndOf(err))
		}
	}
}

// say sends the last bytes and closes so that they arrive: a close with unread
// input would send RST, which can overtake them, so the input is drained for a
// moment. It reports whether they were sent.
func (p *Program) say(b []byte) bool {
	_ = p.SetDeadline(time.Now().Add(time.Second))
	if _, err := p.Conn.Write(b); err != nil {
		return false
	}
	if peek.CloseWrite(p.Conn) == nil {
		_, _ = io.Copy(io.Discard, p.Conn) // whatever comes in that moment, it is not read for its content
	}
	_ = p.Close()
	return true
}
