// Package body is the body of a message of HTTP/1 without its framing, and with it.
//
// Promise: what is read ends where the framing says and is an error where the
// connection ends before; a chunked body is read strictly, and written anew.
//
// It decides nothing about what it carries, and knows no head.
//
// Most readers want [New], or [Chunks] for a body that is passed on as it comes.
package body

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"

	"cloister/egress/internal/buffer"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
)

// A Reader reads what belongs to a body; Before, where not nil, is called
// before each read that may wait.
type Reader struct {
	Src    *peek.Source
	Before func()
}

// Read reads what comes next, framing or not.
func (b *Reader) Read(p []byte) (int, error) {
	if b.Before != nil && len(b.Src.Held()) == 0 {
		b.Before()
	}
	return b.Src.Read(p)
}

// line reads one line that ends in CR LF, without that.
func (b *Reader) line() (string, error) {
	for from := 0; ; {
		for i := from; i < len(b.Src.Held()); i++ {
			if b.Src.Held()[i] != '\n' {
				continue
			}
			if i == 0 || b.Src.Held()[i-1] != '\r' {
				return "", &wire.SyntaxError{Status: 400, Msg: "a line feed without carriage return in a chunked body"}
			}
			return string(b.Src.Take(i + 1)[:i-1]), nil
		}
		if from = len(b.Src.Held()); from > wire.MaxChunkLine {
			return "", &wire.SyntaxError{Status: 400, Msg: "a chunk line that is too long"}
		}
		if b.Before != nil {
			b.Before()
		}
		if err := b.Src.Fill(2 * wire.MaxChunkLine); err != nil {
			return "", err
		}
	}
}

// Chunks decodes a chunked body.
type Chunks struct {
	In       *Reader
	Buffers  *buffer.Pool
	left     int64 // of the chunk under way
	open     bool  // a chunk is under way
	Trailers wire.Header
}

// next goes to the next data, or past the trailers.
func (c *Chunks) next() (done bool, err error) {
	if c.left > 0 {
		return false, nil
	}
	if c.open {
		end, err := c.In.line()
		if err == nil && end != "" {
			err = &wire.SyntaxError{Status: 400, Msg: "a chunk longer than its size"}
		}
		if err != nil {
			return false, err
		}
		c.open = false
	}
	line, err := c.In.line()
	if err != nil {
		return false, err
	}
	if c.left, err = wire.ParseChunkLine(line); err != nil {
		return false, err
	}
	if c.left == 0 {
		return true, c.readTrailers()
	}
	c.open = true
	return false, nil
}

// Copy gives each piece of data to write as it comes. Errors of write wrap
// sock.ErrWrite.
func (c *Chunks) Copy(write func([]byte) error) error {
	for {
		if done, err := c.next(); err != nil || done {
			return err
		}
		n, err := c.piece(c.left, write)
		c.left -= n
		if err != nil && (c.left > 0 || errors.Is(err, sock.ErrWrite)) {
			return err
		}
	}
}

// piece passes what one read gives; the buffer is held no longer than that.
func (c *Chunks) piece(left int64, write func([]byte) error) (int64, error) {
	if len(c.In.Src.Held()) == 0 {
		if c.In.Before != nil {
			c.In.Before()
		}
		if _, err := sock.WaitReadable(c.In.Src.Conn); err != nil {
			return 0, err
		}
	}
	buf := c.Buffers.Get()
	defer c.Buffers.Put(buf)
	n, err := c.In.Src.Read(buf[:min(left, buffer.Size)])
	if n > 0 {
		if werr := write(buf[:n]); werr != nil {
			return int64(n), errors.Join(sock.ErrWrite, werr)
		}
	}
	return int64(n), err
}

// readTrailers reads up to the empty line, and keeps what may stand there.
func (c *Chunks) readTrailers() error {
	for total := 0; ; {
		line, err := c.In.line()
		if err != nil || line == "" {
			return err
		}
		if total += len(line) + 2; total > wire.MaxHead {
			return &wire.SyntaxError{Status: 431, Msg: "trailers that are too long"}
		}
		f, err := wire.ParseField(line)
		if err != nil {
			return err
		}
		if wire.TrailerAllowed(f.Name) {
			c.Trailers = append(c.Trailers, f)
		}
	}
}

// WriteChunk writes one chunk in one system call, and in one TLS record where it
// fits.
func WriteChunk(c net.Conn, buffers *buffer.Pool, data []byte) error {
	if _, ok := c.(*tls.Conn); ok && len(data) <= buffer.Size-32 {
		buf := buffers.Get()
		defer buffers.Put(buf)
		_, err := c.Write(AppendChunk(buf[:0], data))
		return err
	}
	head := strconv.AppendInt(make([]byte, 0, 24), int64(len(data)), 16)
	bufs := net.Buffers{append(head, "\r\n"...), data, []byte("\r\n")}
	_, err := bufs.WriteTo(c)
	return err
}

// AppendTrailers appends the end of a chunked body.
func AppendTrailers(trailers wire.Header) []byte {
	return append(trailers.Append([]byte("0\r\n")), "\r\n"...)
}

// WriteTrailers writes what AppendTrailers gives.
func WriteTrailers(c net.Conn, trailers wire.Header) error {
	_, err := c.Write(AppendTrailers(trailers))
	return err
}

// AppendChunk appends one chunk.
func AppendChunk(b, data []byte) []byte {
	b = append(strconv.AppendInt(b, int64(len(data)), 16), "\r\n"...)
	return append(append(b, data...), "\r\n"...)
}

// A Passage writes a body that its caller reads.
type Passage struct {
	To      net.Conn
	Buffers *buffer.Pool
	Chunked bool
	Left    int64           // of one whose length was given; -1 otherwise
	N       int64           // bytes that were written
	Spend   func(int) error // before something is written; nil for none
}

var errLength = errors.New("a body of another length than was told")

// Copy writes what from gives, by way of buf.
func (p *Passage) Copy(from io.Reader, buf []byte) error {
	counted := p.Left >= 0
	for {
		n, err := from.Read(buf)
		if counted && int64(n) > p.Left {
			return errLength
		}
		if n > 0 && p.Spend != nil {
			if serr := p.Spend(n); serr != nil {
				return serr
			}
		}
		if n > 0 {
			if werr := p.write(buf[:n]); werr != nil {
				return errors.Join(sock.ErrWrite, werr)
			}
			p.N += int64(n)
			p.Left -= int64(n)
		}
		switch {
		case errors.Is(err, io.EOF) && counted && p.Left > 0:
			return errLength
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (p *Passage) write(data []byte) error {
	if p.Chunked {
		return WriteChunk(p.To, p.Buffers, data)
	}
	_, err := p.To.Write(data)
	return err
}
