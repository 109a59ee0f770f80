package apart

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"cloister/internal/exactjson"
	"cloister/internal/freeze"
	"cloister/internal/passfd"
	"cloister/sandbox"
)

// message is one line between the caller and the process that owns its box. Each has one
// of the fields.
type message struct {
	// To the process: what to build, that the gate is served or why not, a signal for the
	// command, a port to reach, and the end.
	Files  int      `json:"files,omitempty"` // come with the line, for the build
	Build  *Order   `json:"build,omitempty"`
	Armed  *failure `json:"armed,omitempty"`
	Signal int      `json:"signal,omitempty"`
	Dial   *dial    `json:"dial,omitempty"`
	Close  bool     `json:"close,omitempty"`

	// From it: sockets, by how many they are; the outer end of the command's terminal; that
	// the command runs, what is reported of files, an answer to a dial, that the command has
	// ended alone, the end, and why nothing runs.
	Peers    int                `json:"peers,omitempty"`
	Gate     int                `json:"gate,omitempty"`
	Terminal bool               `json:"terminal,omitempty"`
	Runs     *runs              `json:"runs,omitempty"`
	Event    *sandbox.FileEvent `json:"event,omitempty"`
	Dialed   *dialed            `json:"dialed,omitempty"`
	Alone    *sandbox.Status    `json:"alone,omitempty"`
	Ended    *ended             `json:"ended,omitempty"`
	Failed   *failure           `json:"failed,omitempty"`
}

// Order is a Spec to start, or to run in the box of Handle.
type Order struct {
	Spec   sandbox.Spec   `json:"spec"`
	Handle sandbox.Handle `json:"handle,omitempty"`
	// Hold has what runs in the box of Handle held still, until the next line or the end.
	Hold bool `json:"hold,omitempty"`
	// Watched says that the caller takes what the Spec wants reported.
	Watched bool `json:"watched,omitempty"`
	// Release is the caller's own, for a process that is of no other.
	Release string `json:"release,omitempty"`
}

// runs is the box whose command runs.
type runs struct {
	Handle  sandbox.Handle `json:"handle"`
	Process int            `json:"process"`
}

type dial struct {
	Number uint64 `json:"number"`
	Port   uint16 `json:"port"`
	Peer   bool   `json:"peer,omitempty"` // at the box's own address
}

// dialed comes with a file where it is no failure.
type dialed struct {
	Number uint64   `json:"number"`
	Failed *failure `json:"failed,omitempty"`
}

type ended struct {
	Status sandbox.Status `json:"status"`
	Failed *failure       `json:"failed,omitempty"`
}

// failure is an error as a line has it, with the types that a person's hints come from.
type failure struct {
	Text        string               `json:"text,omitempty"` // empty for none
	Unsupported *sandbox.Unsupported `json:"unsupported,omitempty"`
	Exec        *execFailure         `json:"exec,omitempty"`
	Ran         bool                 `json:"ran,omitempty"` // something did that was held still
}

type execFailure struct {
	Command  string `json:"command"`
	NotFound bool   `json:"not_found,omitempty"`
	Text     string `json:"text"`
}

func failed(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error(), Ran: errors.Is(err, freeze.ErrRan)}
	if u, ok := errors.AsType[*sandbox.Unsupported](err); ok {
		f.Unsupported = u
	}
	if e, ok := errors.AsType[*sandbox.ExecError](err); ok {
		f.Exec = &execFailure{Command: e.Command, NotFound: e.NotFound, Text: fmt.Sprint(e.Err)}
	}
	return f
}

func (f *failure) err() error {
	if f == nil || f.Text == "" {
		return nil
	}
	var is error
	switch {
	case f.Unsupported != nil:
		is = f.Unsupported
	case f.Ran:
		is = freeze.ErrRan
	case f.Exec != nil:
		is = &sandbox.ExecError{Command: f.Exec.Command, NotFound: f.Exec.NotFound, Err: errors.New(f.Exec.Text)}
	default:
		return errors.New(f.Text)
	}
	if is.Error() == f.Text {
		return is
	}
	return &passedOn{f.Text, is}
}

// passedOn is an error of the other process whose words say more than its type.
type passedOn struct {
	text string
	is   error
}

func (e *passedOn) Error() string { return e.text }

func (e *passedOn) Unwrap() error { return e.is }

// mostLine bounds a line: a Spec with its files is the longest.
const mostLine = 64 << 20

// mostPassed bounds the descriptors of one build, and mostAtOnce those of one line.
const (
	mostPassed = 1024
	mostAtOnce = passfd.MaxFiles / 2
)

// sayWithin bounds how long the other end may take to read a line.
const sayWithin = 30 * time.Second

// line is one end of the conversation.
type line struct{ c *passfd.Conn }

func (l line) say(m message, files ...*os.File) error {
	text, err := exactjson.Marshal(m)
	if err != nil {
		return err
	}
	return l.c.Write(text, files, time.Now().Add(sayWithin))
}

// order passes descriptors and then the order that they are for.
func (l line) order(o Order, files []*os.File) error {
	for some := range slices.Chunk(files, mostAtOnce) {
		if err := l.say(message{Files: len(some)}, some...); err != nil {
			return err
		}
	}
	return l.say(message{Build: &o})
}

// ordered takes descriptors and then the order that they are for.
func (l line) ordered() (o Order, files []*os.File, err error) {
	for {
		m, err := l.hear()
		switch {
		case err != nil:
			return o, files, err
		case m.Build != nil:
			return *m.Build, files, nil
		case m.Files <= 0 || len(files)+m.Files > mostPassed:
			return o, files, errors.New("hear an order: something else came")
		}
		some, err := l.c.Take(m.Files)
		if err != nil {
			return o, files, err
		}
		files = append(files, some...)
	}
}

func (l line) hear() (m message, err error) {
	text, err := l.c.Read()
	if err != nil {
		return m, err
	}
	return m, exactjson.Unmarshal(text, &m)
}
