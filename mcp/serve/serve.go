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
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	Port     uint16 `json:"port" jsonschema:"the port inside"`
	HostPort uint16 `json:"host_port" jsonschema:"the port of the host's 127.0.0.1"`
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

// Run serves one client until it closes its end, or ctx ends.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	s := &server{o: o, slots: make(chan struct{}, maxCalls)}
	m := mcp.NewServer(&mcp.Implementation{Name: "cloister", Title: "Cloister", Version: o.Version}, &mcp.ServerOptions{
		Instructions: instructions(o.Cloister.Dir()),
		Logger:       slog.New(slog.DiscardHandler),
	})
	s.tools(m)
	f := filter(in, out)
	defer f.end()
	err := m.Run(ctx, &mcp.IOTransport{Reader: f.in, Writer: f.out, MaxLineLength: maxFrame})
	if errors.Is(err, io.EOF) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
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

// judged has a call decided. command is empty where nothing of the client's runs.
func (s *server) judged(ctx context.Context, r *mcp.CallToolRequest, command string) (release func(), err error) {
	select {
	case s.slots <- struct{}{}:
		release = func() { <-s.slots }
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	why, err := s.o.Judge(ctx, Call{r.Params.Name, string(r.Params.Arguments), command})
	switch {
	case err != nil:
		err = fmt.Errorf("cloister could not decide about this: %w", err)
	case why != "":
		err = refuse("cloister refused this: %s", why)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
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

// answer is a result whose text a model reads, with the same as data.
func answer(text string, data any, failed bool) (*mcp.CallToolResult, error) {
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: json.RawMessage(raw), IsError: failed,
	}, nil
}

// clean is what a pipe held as text that JSON can carry.
func clean(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
