package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"strconv"

	"cloister/egress/internal/buffer"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
)

// A bodyReader reads what belongs to a body; before, where not nil, is called
// before each read that may wait.
type bodyReader struct {
	src    *peek.Conn
	before func()
}

func (b *bodyReader) read(p []byte) (int, error) {
	if b.before != nil && len(b.src.Held()) == 0 {
		b.before()
	}
	return b.src.Read(p)
}

// line reads one line that ends in CR LF, without that.
func (b *bodyReader) line() (string, error) {
	for from := 0; ; {
		for i := from; i < len(b.src.Held()); i++ {
			if b.src.Held()[i] != '\n' {
				continue
			}
			if i == 0 || b.src.Held()[i-1] != '\r' {
				return "", &wire.SyntaxError{Status: 400, Msg: "a line feed without carriage return in a chunked body"}
			}
			return string(b.src.Take(i + 1)[:i-1]), nil
		}
		if from = len(b.src.Held()); from > wire.MaxChunkLine {
			return "", &wire.SyntaxError{Status: 400, Msg: "a chunk line that is too long"}
		}
		if b.before != nil {
			b.before()
		}
		if err := b.src.Fill(2 * wire.MaxChunkLine); err != nil {
			return "", err
		}
	}
}

// chunks decodes a chunked body.
type chunks struct {
	in       *bodyReader
	buffers  *buffer.Pool
	left     int64 // of the chunk under way
	open     bool  // a chunk is under way
	trailers wire.Header
}

// next goes to the next data, or past the trailers.
func (c *chunks) next() (done bool, err error) {
	if c.left > 0 {
		return false, nil
	}
	if c.open {
		end, err := c.in.line()
		if err == nil && end != "" {
			err = &wire.SyntaxError{Status: 400, Msg: "a chunk longer than its size"}
		}
		if err != nil {
			return false, err
		}
		c.open = false
	}
	line, err := c.in.line()
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

// copy gives each piece of data to write as it comes. Errors of write wrap
// sock.ErrWrite.
func (c *chunks) copy(write func([]byte) error) error {
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
func (c *chunks) piece(left int64, write func([]byte) error) (int64, error) {
	if len(c.in.src.Held()) == 0 {
		if c.in.before != nil {
			c.in.before()
		}
		if _, err := sock.WaitReadable(c.in.src.Conn); err != nil {
			return 0, err
		}
	}
	buf := c.buffers.Get()
	defer c.buffers.Put(buf)
	n, err := c.in.src.Read(buf[:min(left, buffer.Size)])
	if n > 0 {
		if werr := write(buf[:n]); werr != nil {
			return int64(n), errors.Join(sock.ErrWrite, werr)
		}
	}
	return int64(n), err
}

// readTrailers reads up to the empty line, and keeps what may stand there.
func (c *chunks) readTrailers() error {
	for total := 0; ; {
		line, err := c.in.line()
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
			c.trailers = append(c.trailers, f)
		}
	}
}

// writeChunk writes one chunk in one system call, and in one TLS record where it
// fits.
func writeChunk(c net.Conn, buffers *buffer.Pool, data []byte) error {
	if _, ok := c.(*tls.Conn); ok && len(data) <= buffer.Size-32 {
		buf := buffers.Get()
		defer buffers.Put(buf)
		_, err := c.Write(appendChunk(buf[:0], data))
		return err
	}
	head := strconv.AppendInt(make([]byte, 0, 24), int64(len(data)), 16)
	bufs := net.Buffers{append(head, "\r\n"...), data, []byte("\r\n")}
	_, err := bufs.WriteTo(c)
	return err
}

func appendTrailers(trailers wire.Header) []byte {
	return append(trailers.Append([]byte("0\r\n")), "\r\n"...)
}

func writeTrailers(c net.Conn, trailers wire.Header) error {
	_, err := c.Write(appendTrailers(trailers))
	return err
}
