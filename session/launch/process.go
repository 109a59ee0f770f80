package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"cloister/internal/exactjson"
	"cloister/internal/passfd"
)

// The descriptors of a shim that another process started.
const (
	answerFD = 3 // it answers here, once
	orderFD  = 4 // its order is here
	passedFD = 5 // what it is passed besides begins here
)

// An Answer is what a shim sends to the process that started it, when its command runs
// or cannot run.
type Answer struct {
	Name   string   `json:"name,omitempty"`
	Joined bool     `json:"joined,omitempty"` // Name runs already, started by another
	Error  string   `json:"error,omitempty"`
	Hints  []string `json:"hints,omitempty"`
	Status int      `json:"status,omitempty"`
}

// A Failure is the error of a shim, as the process that started it sees it.
type Failure struct{ Answer Answer }

func (e *Failure) Error() string { return e.Answer.Error }

// Hints are the lines of advice.
func (e *Failure) Hints() []string { return e.Answer.Hints }

// envelope is what goes to a shim.
type envelope struct {
	Order Order  `json:"order"`
	Log   string `json:"log"` // the file that its output goes to until it has a name
	// Passed counts the files that it is passed.
	Passed int `json:"passed,omitempty"`
}

// Self is how this program starts itself as a shim.
type Self struct {
	Path string   // the program
	Args []string // the words that make it a shim, argv[0] first
	Env  []string // the whole environment
	Dir  string   // where it starts; "" for the caller's folder
	Logs string   // the folder of logs
}

// A Child is a shim that this process started. It has a session of its own and outlives
// this process.
type Child struct {
	PID    int
	answer *os.File
	log    string
	wait   func() (*os.ProcessState, error)
}

// Start starts a shim and gives it its order, and files that stay the caller's.
func (s Self) Start(o Order, pass ...*os.File) (*Child, error) {
	if err := os.MkdirAll(s.Logs, 0o700); err != nil {
		return nil, fmt.Errorf("make log folder: %w", err)
	}
	log := filepath.Join(s.Logs, ".pending-"+rand.Text())
	out, err := os.OpenFile(log, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer out.Close()
	c, err := s.start(envelope{o, log, len(pass)}, out, pass)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start in the background: %w", err), os.Remove(log))
	}
	return c, nil
}

func (s Self) start(e envelope, out *os.File, pass []*os.File) (*Child, error) {
	text, err := exactjson.Marshal(e)
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	answer, answerEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answerEnd.Close()
	taken, order, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, answer.Close())
	}
	defer order.Close()
	passfd.Private()
	p, err := os.StartProcess(s.Path, s.Args, &os.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: append([]*os.File{null, out, out, answerEnd, taken}, pass...),
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	taken.Close()
	if err != nil {
		return nil, errors.Join(err, answer.Close())
	}
	c := &Child{PID: p.Pid, answer: answer, log: e.Log, wait: sync.OnceValues(p.Wait)}
	// Should this fail, the shim has ended, and Answer reports how.
	_, _ = order.Write(text)
	return c, nil
}

// Answer waits until the shim's command runs, or the shim has said why it does not,
// which is an error of type *[Failure]. It is called once.
func (c *Child) Answer(ctx context.Context) (Answer, error) {
	defer c.answer.Close()
	defer context.AfterFunc(ctx, func() { _ = c.answer.SetReadDeadline(time.Unix(1, 0)) })()
	var a Answer
	if err := errors.Join(json.NewDecoder(c.answer).Decode(&a), exactjson.Restore(&a)); err != nil {
		if ctx.Err() != nil {
			return a, fmt.Errorf("start in the background: %w", ctx.Err())
		}
		state, waitErr := c.wait()
		_ = os.Remove(c.log)
		return a, errors.Join(fmt.Errorf("start in the background: it ended before its command ran: %v", state), waitErr)
	}
	if a.Error == "" && !a.Joined {
		return a, nil
	}
	_, err := c.wait()
	_ = os.Remove(c.log)
	if a.Error != "" {
		err = &Failure{a}
	}
	return a, err
}

// Wait waits until the shim has ended. A caller that lives long calls it, or else the
// shim stays as a zombie.
func (c *Child) Wait() error {
	_, err := c.wait()
	return err
}

// Status waits as Wait does, and gives the status that it ended with.
func (c *Child) Status() (int, error) {
	state, err := c.wait()
	if err != nil {
		return 0, err
	}
	return state.ExitCode(), nil
}

// A Reply is the way back from a shim to the process that started it.
type Reply struct {
	// Passed are the files that came with the order. They are the shim's to close.
	Passed []*os.File
	file   *os.File
	log    string
}

// Receive takes the order that this process was started with. It is called before any
// other process is started, since the descriptors are not for those.
func Receive() (Order, *Reply, error) {
	syscall.CloseOnExec(answerFD)
	syscall.CloseOnExec(orderFD)
	from := os.NewFile(orderFD, "order")
	defer from.Close()
	var e envelope
	text, err := io.ReadAll(from)
	if err == nil {
		err = exactjson.Unmarshal(text, &e)
	}
	if err != nil {
		return Order{}, nil, fmt.Errorf("read the order: %w", err)
	}
	r := &Reply{file: os.NewFile(answerFD, "answer"), log: e.Log}
	for i := range e.Passed {
		syscall.CloseOnExec(passedFD + i)
		r.Passed = append(r.Passed, os.NewFile(uintptr(passedFD+i), "passed"))
	}
	return e.Order, r, nil
}

// Send answers. What comes after the first answer is not sent. Its error says that the other end is
// gone, which only a session that is awaited ([Order.Awaited]) depends on.
func (r *Reply) Send(a Answer) error {
	if r.file == nil {
		return nil
	}
	text, err := exactjson.Marshal(a)
	if err == nil {
		_, err = r.file.Write(text)
	}
	_ = r.file.Close()
	r.file = nil
	return err
}

// NameLog gives the log of this process its name.
func (r *Reply) NameLog(name string) error {
	if err := os.Rename(r.log, name); err != nil {
		return fmt.Errorf("name log: %w", err)
	}
	return nil
}
