package link

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// What the shim asks the agent's first process for, one Task a line.
const (
	TaskFill = "fill" // a Body follows: an archive for Task.Roots
	TaskPack = "pack" // the answer has a Body before it, where it is not the same
	TaskEnd  = "end"  // all other processes of the container
)

// Task is what is to be done.
type Task struct {
	Do    string   `json:"do"`
	Roots []string `json:"roots,omitempty"`
}

// Done is how it went. A Body follows a pack that is not Same, and another Done that.
type Done struct {
	Error string `json:"error,omitempty"`
	Same  bool   `json:"same,omitempty"` // as what was packed last
}

// Hello is what the first process says to the gate before anything else.
const Hello = "init\n"

// maxLine bounds a line of these.
const maxLine = 1 << 20

// WriteLine writes one of them.
func WriteLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ReadLine reads one of them.
func ReadLine(r *bufio.Reader, v any) error {
	var line strings.Builder
	for {
		piece, err := r.ReadSlice('\n')
		line.Write(piece)
		if line.Len() > maxLine {
			return errors.New("a line is too long")
		}
		if err == nil {
			return json.Unmarshal([]byte(line.String()), v)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// First is the agent's first process, for the shim. One task is done at a time.
type First struct {
	mu sync.Mutex
	c  io.Writer
	r  *bufio.Reader
}

// NewFirst speaks by a stream.
func NewFirst(c io.ReadWriter) *First { return &First{c: c, r: bufio.NewReaderSize(c, 64<<10)} }

// Fill has it fill folders with what send writes.
func (f *First) Fill(roots []string, send func(io.Writer) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := WriteLine(f.c, Task{Do: TaskFill, Roots: roots}); err != nil {
		return err
	}
	body := Body{f.c}
	out := bufio.NewWriterSize(body, maxFrame)
	if err := errors.Join(send(out), out.Flush(), body.Close()); err != nil {
		return err
	}
	return f.done(&Done{})
}

func (f *First) done(d *Done) error {
	if err := ReadLine(f.r, d); err != nil {
		return fmt.Errorf("the pod does not answer: %w", err)
	}
	if d.Error != "" {
		return errors.New("in the pod: " + d.Error)
	}
	return nil
}

// End ends all other processes of the container.
func (f *First) End() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := WriteLine(f.c, Task{Do: TaskEnd}); err != nil {
		return err
	}
	return f.done(&Done{})
}

// Pack gives take what differs in the folders, which it must read whole, and reports whether
// there was anything since the last time.
func (f *First) Pack(take func(io.Reader) error) (came bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := WriteLine(f.c, Task{Do: TaskPack}); err != nil {
		return false, err
	}
	var d Done
	if err := f.done(&d); err != nil || d.Same {
		return false, err
	}
	body := &Text{R: f.r}
	taken := take(body)
	_, err = io.Copy(io.Discard, body)
	if err == nil {
		err = f.done(&d)
	}
	return true, errors.Join(taken, err)
}
