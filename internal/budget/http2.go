package budget

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// step is how much a connection takes at once.
const step = 64 << 10

// A Side says which end of HTTP/2 a connection is.
type Side int

// Of the preface, which only a client says.
const (
	Server Side = iota // it is read
	Client             // it is written
)

const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

// An Ender is a connection that can report whether its peer has ended it although not all
// that came was read.
type Ender interface{ Ended() bool }

// Conn is c, whose unread data counts: what comes waits until there is memory for it, and
// the connection breaks off where there is none for long, counted over all its waits since
// some of its data was read. A client that has ended is not waited for, if c is an [Ender]:
// what it asked for is of no use any more.
func (s *Share) Conn(c net.Conn, side Side) net.Conn {
	if s == nil {
		return c
	}
	f := &flow{Conn: c, share: s, side: side, closed: make(chan struct{})}
	if f.in.skip = preface; side == Client {
		f.in.skip, f.out.skip = 0, preface
	}
	if ender, ok := c.(Ender); ok && side == Server {
		f.ended = ender.Ended
	}
	return f
}

// A flow is a connection of HTTP/2.
type flow struct {
	net.Conn
	share  *Share
	side   Side
	in     frames // used by the reader
	out    frames // used by the writer
	once   sync.Once
	closed chan struct{}
	ended  func() bool // nil where nothing says so

	mu       sync.Mutex
	buffered int64 // data that came, less what flow control says was read
	block    int64 // of a head that has begun and not ended
	held     int64 // of the share
	over     bool
	waited   time.Duration // for memory, since some of the data was read
}

// Read reads, and counts what comes in frames of data, and of heads that have no end yet.
func (f *flow) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	var data int64
	f.in.scan(p[:n], func(kind byte, b []byte) {
		switch {
		case kind == 0:
			data += int64(len(b))
		case kind == 4 && f.side == Client:
			f.in.lower(b)
		}
	})
	f.mu.Lock()
	if data == 0 && f.in.block == f.block {
		f.mu.Unlock()
		return n, err
	}
	f.buffered, f.block = f.buffered+data, f.in.block
	need := f.buffered + f.block - f.held
	within := f.share.of.within - f.waited
	f.free()
	f.mu.Unlock()
	if need <= 0 {
		return n, err
	}
	need = (need + step - 1) / step * step
	begin := time.Now()
	if err := f.share.wait(need, within, f.closed, f.ended); err != nil {
		_ = f.Close()
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waited += time.Since(begin)
	if f.over {
		f.share.Give(need)
	} else {
		f.held += need
	}
	return n, err
}

// Write writes, and gives back what the other side is informed that it may send more.
func (f *flow) Write(p []byte) (int, error) {
	var read int64
	f.out.scan(p, func(kind byte, b []byte) {
		if kind == 8 && f.out.stream == 0 {
			for _, c := range b {
				f.out.more = f.out.more<<8 | int64(c)
			}
			if f.out.left == 0 {
				read, f.out.more = read+f.out.more&0x7fffffff, 0
			}
		}
	})
	if read > 0 {
		f.mu.Lock()
		f.buffered = max(0, f.buffered-read) // the first makes the window larger
		f.waited = 0
		f.free()
		f.mu.Unlock()
	}
	return f.Conn.Write(p)
}

// free gives back what nothing needs any more.
func (f *flow) free() {
	if free := (f.held - f.buffered - f.block) / step * step; free > 0 {
		f.held -= free
		f.share.Give(free)
	}
}

// Close closes the connection, and gives back all that it held.
func (f *flow) Close() error {
	f.once.Do(func() {
		close(f.closed)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.over = true
		f.share.Give(f.held)
		f.held = 0
	})
	return f.Conn.Close()
}

// NetConn is what lies below, as in crypto/tls.
func (f *flow) NetConn() net.Conn { return f.Conn }

// frames follows one direction (RFC 9113 4.1).
type frames struct {
	skip   int // of the preface
	head   [9]byte
	have   int
	left   int
	kind   byte
	ends   bool // it is the last of a head
	block  int64
	size   int    // of the payload
	id     uint16 // of the setting under way
	stream uint32
	more   int64 // of an increment under way
}

// scan gives each piece of a frame's payload.
func (s *frames) scan(p []byte, payload func(kind byte, b []byte)) {
	n := min(s.skip, len(p))
	s.skip -= n
	for p = p[n:]; len(p) > 0; {
		if s.left > 0 {
			n := min(s.left, len(p))
			s.left -= n
			payload(s.kind, p[:n])
			s.count(n)
			p = p[n:]
			continue
		}
		n := copy(s.head[s.have:], p)
		s.have, p = s.have+n, p[n:]
		if s.have < len(s.head) {
			return
		}
		s.have = 0
		s.left = int(s.head[0])<<16 | int(s.head[1])<<8 | int(s.head[2])
		s.size = s.left
		s.ends = s.head[4]&4 != 0
		s.kind, s.stream = s.head[3], binary.BigEndian.Uint32(s.head[5:])&0x7fffffff
		s.count(0)
	}
}

// MostFrame is the largest frame that a server is sent, which every one takes: a writer
// larger ones holds as much for each body under way (x/net/http2 up to 512 KiB).
const MostFrame uint32 = 16 << 10

// lower brings the largest frame of a server's settings down to that, in a piece of their
// payload: six bytes each, of which the last four are the value (RFC 9113 6.5.1).
func (s *frames) lower(b []byte) {
	const largest = 5 // SETTINGS_MAX_FRAME_SIZE, never less than 16 KiB
	for i, at := 0, s.size-s.left-len(b); i < len(b); i, at = i+1, at+1 {
		switch at % 6 {
		case 0:
			s.id = uint16(b[i]) << 8
		case 1:
			s.id |= uint16(b[i])
		default:
			if s.id == largest {
				b[i] = byte(MostFrame >> (8 * (5 - at%6)))
			}
		}
	}
}

// count adds to a head what has come of it. One that is whole counts no longer: who
// serves it takes what it needs.
func (s *frames) count(n int) {
	if s.kind != 1 && s.kind != 9 {
		return
	}
	if s.block += int64(n); s.ends && s.left == 0 {
		s.block = 0
	}
}
