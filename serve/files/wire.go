package files

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds of what travels.
const (
	maxPath  = 4096
	maxLine  = 16 << 20 // one answer: a listing of some 50,000 names
	maxChunk = 256 << 10
	// MaxEntries bounds a listing.
	MaxEntries = 50_000
)

// Op is what is asked of the program.
type Op string

// The closed set of requests.
const (
	opStat   Op = "stat"
	opList   Op = "list"
	opMkdir  Op = "mkdir"
	opMove   Op = "move"
	opRemove Op = "remove"
	opRead   Op = "read"
	opWrite  Op = "write"
	opWatch  Op = "watch"
	opPack   Op = "pack"
	opUnpack Op = "unpack"
	opUsage  Op = "usage"
)

// request is one line to the program. A write's content follows in chunks.
type request struct {
	Op        Op                `json:"op"`
	Path      string            `json:"path"`
	To        string            `json:"to,omitempty"`
	Depth     int               `json:"depth,omitempty"`
	Recursive bool              `json:"recursive,omitempty"`
	Entry     bool              `json:"entry,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
}

// answer is one line of the program. A read's content follows in chunks.
type answer struct {
	Code    Code    `json:"code,omitempty"`
	Message string  `json:"message,omitempty"`
	Entry   *Entry  `json:"entry,omitempty"`
	Entries []Entry `json:"entries,omitempty"`
	Event   *Event  `json:"event,omitempty"`
	Usage   *Usage  `json:"usage,omitempty"`
}

// Usage is what the processes of a sandbox use, as the inside sees it: a payload may lie
// about its own.
type Usage struct {
	Ticks int64 `json:"ticks"` // of processor time, 100 a second
	Bytes int64 `json:"bytes"` // of resident memory
	// Of its machine: processors, memory, and the disk that a folder is on.
	CPUs     int   `json:"cpus"`
	Memory   int64 `json:"memory"`
	Disk     int64 `json:"disk"`
	DiskUsed int64 `json:"disk_used"`
}

// Kind is what an entry is.
type Kind string

// The closed set of kinds.
const (
	File    Kind = "file"
	Dir     Kind = "dir"
	Symlink Kind = "symlink"
	Other   Kind = "other"
)

// Entry is one file or folder of a sandbox.
type Entry struct {
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Kind     Kind              `json:"kind"`
	Size     int64             `json:"size"`
	Mode     uint32            `json:"mode"` // permission bits
	Text     string            `json:"text"` // the mode as ls writes it
	Owner    string            `json:"owner"`
	Group    string            `json:"group"`
	Modified time.Time         `json:"modified"`
	Target   string            `json:"target,omitempty"` // of a symbolic link
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Change is what happened to a watched file.
type Change string

// The closed set of changes.
const (
	Created Change = "create"
	Written Change = "write"
	Removed Change = "remove"
	Renamed Change = "rename"
	Chmod   Change = "chmod"
)

// Event is one change below a watched folder; Name is relative to it.
type Event struct {
	Name   string `json:"name"`
	Change Change `json:"change"`
	Entry  *Entry `json:"entry,omitempty"`
}

// Code tells a program why a request failed.
type Code string

// The closed set of codes.
const (
	NotFound Code = "not_found"
	Exists   Code = "exists"
	Invalid  Code = "invalid"
	Denied   Code = "denied"
	Full     Code = "full"
	TooMuch  Code = "too_much"
	Failed   Code = "failed"
)

// Error is a refusal by the sandbox's own kernel.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return e.Message }

func writeLine(w *bufio.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > maxLine {
		return fmt.Errorf("a line of %d bytes is too long", len(text))
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return err
	}
	return w.Flush()
}

func readLine(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine+1 {
			return errors.New("a line is too long")
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	return json.Unmarshal(line, v)
}

// chunkWriter writes content as chunks: a length, then so many bytes. Length 0 is the end.
type chunkWriter struct{ w *bufio.Writer }

func (c chunkWriter) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 {
		part := p[:min(len(p), maxChunk)]
		if err := c.chunk(part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

func (c chunkWriter) chunk(p []byte) error {
	var head [4]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(p)))
	if _, err := c.w.Write(head[:]); err != nil {
		return err
	}
	_, err := c.w.Write(p)
	return err
}

func (c chunkWriter) end() error {
	if err := c.chunk(nil); err != nil {
		return err
	}
	return c.w.Flush()
}

// chunkReader reads what a chunkWriter wrote, up to its end.
type chunkReader struct {
	r    *bufio.Reader
	left uint32
	over bool
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for c.left == 0 {
		if c.over {
			return 0, io.EOF
		}
		var head [4]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return 0, noEOF(err)
		}
		c.left = binary.BigEndian.Uint32(head[:])
		if c.left > maxChunk {
			return 0, fmt.Errorf("a chunk of %d bytes is too long", c.left)
		}
		c.over = c.left == 0
	}
	n, err := c.r.Read(p[:min(len(p), int(c.left))])
	c.left -= uint32(n)
	return n, noEOF(err)
}

// noEOF is the error of a stream that ended in the middle.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
