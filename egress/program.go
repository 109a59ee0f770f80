package egress

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

// isSSH waits for as much of a banner as tells.
func (s *stream) isSSH() bool {
	const banner = "SSH-2.0-"
	for {
		n := min(len(s.client.Held()), len(banner))
		switch {
		case string(s.client.Held()[:n]) != banner[:n]:
			return false
		case n == len(banner):
			return true
		case s.client.Fill(wire.MaxHello) != nil:
			return false
		}
	}
}

// endOf says in plain words how reading ended.
func endOf(err error) string {
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

// readBy sets the time by which the client must have been read; 0 for none.
func (s *stream) readBy(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	s.deadline = t
	_ = s.client.SetReadDeadline(t) // fails on a closed connection only, as the read will
}

// readSoon is readBy of at most d and hardly less: a deadline that is there already
// and will do is left, since each that is set may wake a thread.
func (s *stream) readSoon(d time.Duration) {
	if left := time.Until(s.deadline); left > d || left < d-d/4 {
		s.readBy(d)
	}
}

// awaitRequest waits for the first byte of the next head.
func (s *stream) awaitRequest(wait time.Duration) bool {
	if len(s.client.Held()) > 0 {
		return true
	}
	s.client.Drop()
	s.readSoon(wait)
	err := s.client.Fill(wire.MaxHead)
	if err != nil {
		s.alert = dial.AlertOf(err)
	}
	return err == nil
}

// readRequest reads one head off the client.
func (s *stream) readRequest() (*wire.Request, error) {
	head, err := readHead(s.client, func() { s.readBy(s.e.limits.Handshake) })
	if err != nil {
		return nil, err
	}
	return wire.ParseRequest(head)
}

// readHead reads as much of src as makes one head; what follows it stays. short,
// where not nil, is called once where what is here is not all of it.
func readHead(src *peek.Conn, short func()) ([]byte, error) {
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

// parse feeds a parser until it has what it needs, and takes that.
func (s *stream) parse(f func([]byte) (int, error)) error {
	for {
		n, err := f(s.client.Held())
		if err == nil {
			s.client.Take(n)
			return nil
		}
		if !errors.Is(err, wire.ErrShort) {
			return err
		}
		if err := s.client.Fill(peek.First); err != nil {
			return errors.New("socks5: " + endOf(err))
		}
	}
}

// say sends the last bytes and closes so that they arrive: a close with unread
// input would send RST, which can overtake them, so the input is drained for a
// moment.
func (s *stream) say(b []byte) {
	_ = s.client.SetDeadline(time.Now().Add(time.Second))
	if _, err := s.client.Conn.Write(b); err != nil {
		s.reset()
		return
	}
	if peek.CloseWrite(s.client.Conn) == nil {
		_, _ = io.Copy(io.Discard, s.client.Conn) // whatever comes in that moment, it is not read for its content
	}
	_ = s.client.Close()
}
