package template

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A template's file is magic, then pieces: an offset in the guest's memory, a length, and so many bytes. The last piece
// has no offset in the memory, and is the state of the machine's devices. What no piece has of the memory is zero.
const (
	magic   = "cloister template 1\n"
	ofState = ^uint64(0)
)

// mostPiece bounds a piece of memory, MaxState the state of the devices, which is some 2 MiB.
const (
	mostPiece = 1 << 20
	MaxState  = 32 << 20
)

const page = 4096

// Write writes a machine: the pages of its memory that hold something, and its devices' state.
func Write(to io.Writer, memory *os.File, state []byte) error {
	if _, err := io.WriteString(to, magic); err != nil {
		return err
	}
	buf := make([]byte, mostPiece)
	for at := int64(0); ; {
		from, err := unix.Seek(int(memory.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return writePiece(to, ofState, state)
		}
		if err != nil {
			return fmt.Errorf("find what the memory holds: %w", err)
		}
		if at, err = unix.Seek(int(memory.Fd()), from, unix.SEEK_HOLE); err != nil {
			return fmt.Errorf("find what the memory holds: %w", err)
		}
		for from < at {
			part := buf[:min(at-from, mostPiece)]
			if _, err := memory.ReadAt(part, from); err != nil {
				return fmt.Errorf("read the memory: %w", err)
			}
			if err := writePages(to, from, part); err != nil {
				return err
			}
			from += int64(len(part))
		}
	}
}

// writePages writes a part of the memory without its pages of zeroes.
func writePages(to io.Writer, from int64, part []byte) error {
	zero := make([]byte, page)
	empty := func(at int) bool {
		return bytes.Equal(part[at:min(at+page, len(part))], zero[:min(page, len(part)-at)])
	}
	for at := 0; at < len(part); {
		if empty(at) {
			at += page
			continue
		}
		end := at
		for end < len(part) && !empty(end) {
			end = min(end+page, len(part))
		}
		if err := writePiece(to, uint64(from)+uint64(at), part[at:end]); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func writePiece(to io.Writer, offset uint64, text []byte) error {
	head := binary.BigEndian.AppendUint64(nil, offset)
	if _, err := to.Write(binary.BigEndian.AppendUint64(head, uint64(len(text)))); err != nil {
		return err
	}
	_, err := to.Write(text)
	return err
}

// ErrChanged says that a file is not the template that it is named for.
var ErrChanged = errors.New("it is not what was kept: its digest is another")

// Read puts a template's memory into an empty file of the guest's size, and gives its devices' state. By then all of it
// was read, and has the digest.
func Read(from io.Reader, digest string, memory *os.File, size int64) (state []byte, err error) {
	sum := sha256.New()
	in := io.TeeReader(from, sum)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != magic {
		return nil, ended(err)
	}
	buf, last := make([]byte, mostPiece), uint64(0)
	for {
		var where [16]byte
		if _, err := io.ReadFull(in, where[:]); err != nil {
			return nil, ended(err)
		}
		offset, length := binary.BigEndian.Uint64(where[:8]), binary.BigEndian.Uint64(where[8:])
		if offset == ofState {
			if length > MaxState {
				return nil, ErrChanged
			}
			state = make([]byte, length)
			if _, err := io.ReadFull(in, state); err != nil {
				return nil, ended(err)
			}
			break
		}
		if length == 0 || length > mostPiece || offset < last || offset > uint64(size) || length > uint64(size)-offset {
			return nil, ErrChanged
		}
		last = offset + length
		if _, err := io.ReadFull(in, buf[:length]); err != nil {
			return nil, ended(err)
		}
		if _, err := memory.WriteAt(buf[:length], int64(offset)); err != nil {
			return nil, fmt.Errorf("fill the memory: %w", err)
		}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(in, 1)); n != 0 || err != nil {
		return nil, errors.Join(ErrChanged, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digest {
		return nil, ErrChanged
	}
	return state, nil
}

// ended makes of a file that ends too early, or begins with something else, one that was changed.
func ended(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrChanged
	}
	return err
}
