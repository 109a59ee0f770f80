// Package serve is Cloister as an MCP server: it gives a client outside, an agent or its
// editor, one cloister to run commands and to keep files in.
//
// Promise: every tool acts inside the cloister by way of a [Cloister], after the [Judge] has
// allowed and recorded the call; no path of a client is opened on the host. What a client
// sends, and what a command writes, is bounded; a frame that two readers could take for two
// things is answered with an error and goes no further.
//
// It builds no cloister, knows no policy and no guardian, and keeps nothing.
//
// Most readers want [Run].
package serve

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
)

// A Cloister is what the tools act in.
type Cloister interface {
	// Run runs one command inside and gives its exit status.
	Run(ctx context.Context, c Command) (status int, err error)
	// Dir is the project's folder, as it is called inside.
	Dir() string
	// Publish makes a port inside reachable on the host's loopback; host 0 is any.
	Publish(ctx context.Context, port, host uint16) (uint16, error)
	// Ports are the published ones.
	Ports() []Port
}

// A Command is run inside. Stdout and Stderr nil are thrown away.
type Command struct {
	Argv           []string
	Dir            string
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// A Port of the host's loopback leads to one inside.
type Port struct {
	Port     uint16 `json:"port" doc:"the port inside"`
	HostPort uint16 `json:"host_port" doc:"the port of the host's 127.0.0.1"`
}

// A Call is what a Judge decides about.
type Call struct {
	Tool      string
	Arguments string // a JSON object; empty for none
	Command   string // what is going to run inside, for the record
}

// A Judge allows and records a call, or says why not. An error is one of the judge.
type Judge func(ctx context.Context, c Call) (refused string, err error)

// Options are what a server is made of; all are required.
type Options struct {
	Version  string
	Cloister Cloister
	Judge    Judge
}

// Run serves one client until it closes its end, or ctx ends. Calls under way when the client
// closes its end have [lastAnswers] to end. Afterwards a read of in, and an answer that the
// client does not read, may stay until these are closed.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	s := &server{o: o, slots: make(chan struct{}, maxCalls)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &conn{server: s, tools: s.tools(), out: out, waiting: map[string]context.CancelFunc{}}
	read, answered := make(chan error, 1), make(chan struct{})
	go func() {
		read <- c.read(ctx, in)
		c.calls.Wait()
		close(answered)
	}()
	var err error
	select {
	case err = <-read:
		select {
		case <-answered:
		case <-ctx.Done():
		case <-time.After(lastAnswers):
		}
	case <-ctx.Done():
	}
	cancel()
	ended := make(chan struct{})
	go func() {
		c.end()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(lastAnswers): // an answer that the client does not read
	}
	return err
}

func instructions(dir string) string {
	return "An enclosed machine for this project, which is at " + dir + " there. Commands run with the project's " +
		"files and toolchains and nothing else of the host; the network is what the person's policy allows, and a " +
		"refusal says which rule refused and how the person can allow it. Paths are those of the inside; a relative " +
		"one begins at the project."
}

type server struct {
	o     Options
	slots chan struct{}
}

// maxCalls are carried out at once; a further one waits.
const maxCalls = 32

// A refusedError is an answer to the client, not a fault of the server.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

func refuse(format string, args ...any) error { return &refusedError{fmt.Sprintf(format, args...)} }

// judged has a call decided, and takes a slot for it: what waits for a person keeps nothing
// else from running. command is empty where nothing of the client's runs.
func (s *server) judged(ctx context.Context, r request, command string) (release func(), err error) {
	why, err := s.o.Judge(ctx, Call{r.tool, string(r.arguments), command})
	switch {
	case err != nil:
		return nil, fmt.Errorf("cloister could not decide about this: %w", err)
	case why != "":
		return nil, refuse("cloister refused this: %s", why)
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// seconds is a time that a client gave.
func seconds(n, unsaid, most float64) (time.Duration, error) {
	switch {
	case n == 0:
		n = unsaid
	case !(n > 0 && n <= most):
		return 0, refuse("timeout_seconds is more than 0 and at most %g", most)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// A toolResult is the answer of a tool: text that a model reads, and the same as data.
type toolResult struct {
	Content           []textContent `json:"content"`
	StructuredContent any           `json:"structuredContent,omitempty"`
	IsError           bool          `json:"isError,omitempty"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func answer(text string, data any, failed bool) *toolResult {
	return &toolResult{Content: []textContent{{"text", text}}, StructuredContent: data, IsError: failed}
}

// visible is what a command wrote with its control characters spelled out, but for line ends
// and tabs: a client may show the text on a terminal, which obeys them.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) && !strings.ContainsRune("\t\n\r", r) {
			fmt.Fprintf(&b, "\\x%02x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clean is what a pipe held as text that JSON can carry.
func clean(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
