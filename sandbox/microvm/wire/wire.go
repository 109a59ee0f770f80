package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// patience bounds how long the other side may take to read what was sent to all streams
// together: an emulated guest on a busy machine is slow.
const patience = 5 * time.Minute

// window is how much of a stream may be on its way.
const window = 512 << 10

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // a side that is gone closes the port
	c.ConnectionWriteTimeout = patience
	c.StreamOpenTimeout = 0
	c.MaxStreamWindowSize = window
	c.LogOutput = io.Discard // an error is the caller's
	return c
}

// Guest is the guest's side of a port.
func Guest(port io.ReadWriteCloser) (*yamux.Session, error) { return yamux.Server(port, config()) }

// Monitor is the monitor's side.
func Monitor(port io.ReadWriteCloser) (*yamux.Session, error) { return yamux.Client(port, config()) }

// Open begins a stream.
func Open(s *yamux.Session, h Head) (*yamux.Stream, error) {
	c, err := s.OpenStream()
	if err != nil {
		return nil, err
	}
	if err := Say(c, h); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// MaxLine bounds a line.
const MaxLine = 4 << 20

// Say writes one line.
func Say(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) >= MaxLine {
		return fmt.Errorf("a line of %d bytes is too long: at most %d", len(text), MaxLine)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Hear reads one line, and not a byte further.
func Hear(r io.Reader, v any) error { return hear(r, v, MaxLine) }

// MaxHead bounds what a guest says a stream of its own is: an address at most.
const MaxHead = 1 << 10

// MaxWord bounds a guest's word about a command: a reason at most.
const MaxWord = 8 << 10

// HearWord reads a guest's word.
func HearWord(r io.Reader, w *Word) error { return hear(r, w, MaxWord) }

// MaxConnections bounds the connections and questions that a guest hands on at one time.
const MaxConnections = 1024

// HearHead reads the line that a guest begins a stream with.
func HearHead(r io.Reader, h *Head) error { return hear(r, h, MaxHead) }

func hear(r io.Reader, v any, most int) error {
	var line bytes.Buffer
	one := make([]byte, 1)
	for line.Len() < most {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line.Bytes(), v)
		}
		line.WriteByte(one[0])
	}
	return errors.New("a line is too long")
}

// MaxFrame bounds a frame: a datagram, or a piece of a direction.
const MaxFrame = 32 << 10

// WriteFrame writes a frame.
func WriteFrame(w io.Writer, text []byte) error {
	if len(text) > MaxFrame {
		return fmt.Errorf("a frame of %d bytes is too long", len(text))
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

// ReadFrame reads a frame into room for one.
func ReadFrame(r io.Reader, room []byte) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > len(room) {
		return nil, fmt.Errorf("a frame of %d bytes is too long", n)
	}
	_, err := io.ReadFull(r, room[:n])
	return room[:n], err
}

// Conn is a connection whose directions end one by one.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Carry copies both directions of a connection until both have ended. Each is frames, of which
// an empty one is its end; a stream that ends without it was aborted, and so is the other side.
func Carry(s net.Conn, c Conn) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		if err := send(s, c); err != nil {
			abort(s, c)
		}
	}()
	if err := receive(c, s); err != nil {
		abort(s, c)
	}
	<-up
	_ = s.Close() // both directions have ended
	_ = c.Close()
}

func abort(s net.Conn, c Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // its program sees a reset
	}
	_ = c.Close()
	_ = s.Close()
	_ = s.SetReadDeadline(time.Unix(1, 0)) // a stream's Close ends no Read of its own
}

func send(s io.Writer, c io.Reader) error {
	buf := make([]byte, MaxFrame)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if werr := WriteFrame(s, buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return WriteFrame(s, nil)
		}
		if err != nil {
			return err
		}
	}
}

func receive(c Conn, s io.Reader) error {
	buf := make([]byte, MaxFrame)
	for {
		text, err := ReadFrame(s, buf)
		if err != nil {
			return err
		}
		if len(text) == 0 {
			return c.CloseWrite()
		}
		if _, err := c.Write(text); err != nil {
			return err
		}
	}
}
