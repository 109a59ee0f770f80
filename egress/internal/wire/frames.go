package wire

import (
	"encoding/binary"
	"errors"
)

// A FrameScan follows the WebSocket frames of one direction (RFC 6455 5.2). It
// looks at their heads only: what passes is frames and nothing else, since bytes
// that are none would be a tunnel for any protocol.
type FrameScan struct {
	Masked   bool // by a client; a server's frames are not
	Extended bool // an extension was agreed on, so that the first reserved bit may be set

	head       [14]byte
	have       int
	left       uint64 // of the frame's data
	fragmented bool   // a message goes on
	final      bool   // the frame is the last of its message
	closed     bool
	at         int // in the data, for its mask
	key        int // where in the head the mask lies
	control    bool
}

var errFrame = errors.New("bytes that are no WebSocket frame")

// Scan reads on. An error is final, and says that b is not to be passed on.
func (f *FrameScan) Scan(b []byte) error { return f.Walk(b, nil, nil) }

// Walk is Scan that gives what it reads: head the bytes of heads, data those of
// frames, without their mask in a copy, with the end of each that is not empty, and an
// empty end of a message. Either may be nil. In data, Control says of which frames it
// is, and Final whether its message ends with it.
func (f *FrameScan) Walk(b []byte, head func([]byte), data func(p []byte, end bool) error) error {
	for len(b) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(b)))
			f.left -= n
			if data != nil {
				if err := data(f.unmasked(b[:n]), f.left == 0); err != nil {
					return err
				}
			}
			b = b[n:]
			continue
		}
		if f.closed {
			return errFrame
		}
		f.head[f.have] = b[0]
		if head != nil {
			head(b[:1])
		}
		f.have, b = f.have+1, b[1:]
		if f.have < 2 || f.have < f.size() {
			continue
		}
		if err := f.begin(); err != nil {
			return err
		}
		f.have = 0
		if f.left == 0 && f.final && !f.control && data != nil {
			if err := data(nil, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// Final reports whether the frame that is read is the last of its message.
func (f *FrameScan) Final() bool { return f.final }

// Control reports whether the frame that is read is none of a message: a ping, a pong,
// the end.
func (f *FrameScan) Control() bool { return f.control }

// unmasked is data as it was before its mask (RFC 6455 5.3).
func (f *FrameScan) unmasked(p []byte) []byte {
	if !f.Masked {
		return p
	}
	key := f.head[f.key : f.key+4]
	out := make([]byte, len(p))
	for i, c := range p {
		out[i] = c ^ key[(f.at+i)%4]
	}
	f.at += len(p)
	return out
}

// size is the length of a head whose first two bytes are there.
func (f *FrameScan) size() int {
	n := 2
	switch f.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

// begin checks a whole head.
func (f *FrameScan) begin() error {
	const final, reserved1, reserved23 = 0x80, 0x40, 0x30
	first, opcode, control := f.head[0], f.head[0]&0x0f, f.head[0]&0x08 != 0
	length := uint64(f.head[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(f.head[2:]))
		if length < 126 {
			return errFrame
		}
	case 127:
		length = binary.BigEndian.Uint64(f.head[2:])
		if length < 1<<16 || length >= 1<<63 {
			return errFrame
		}
	}
	switch {
	case (f.head[1]&0x80 != 0) != f.Masked, first&reserved23 != 0, opcode > 10, opcode > 2 && opcode < 8:
		return errFrame
	case first&reserved1 != 0 && (!f.Extended || control || opcode == 0):
		return errFrame
	case control && (first&final == 0 || length > 125):
		return errFrame
	case !control && (opcode == 0) != f.fragmented:
		return errFrame
	}
	if !control {
		f.fragmented = first&final == 0
	}
	f.closed, f.left = opcode == 8, length
	f.at, f.key, f.control, f.final = 0, f.size()-4, control, first&final != 0
	return nil
}
