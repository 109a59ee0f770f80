// Package acp stands between an editor and an agent in a cloister that speak version 1 of
// the Agent Client Protocol over stdin and stdout.
//
// Promise: the agent gets none of the editor's powers over the host. The capabilities for
// files, terminals, logins and elicitation are taken out of initialize, and a request for
// one of them is recorded and refused. What the agent sends is written anew for the editor:
// known methods and kinds of content alone, no extension data, no control character, no
// path that leads out of the project or to what the cloister hides or protects. Servers of
// MCP that the editor brings are checked one by one. A line that two readers could take for
// two things goes nowhere. Lines, requests and records are bounded.
//
// It starts no agent, and looks into no text that an agent writes, which an editor may show
// as Markdown. A path is checked at one moment: the agent can change afterwards where it
// leads.
//
// Most readers want [Run].
package acp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"cloister/internal/termsafe"
	"cloister/mcp"
)

const (
	maxPending = 1024 // requests under way in one direction
	maxRecords = 1000 // refused requests with a record of their own
	maxNotices = 32
	// recordWithin bounds the wait for one record.
	recordWithin = 10 * time.Second
	// lastLines bounds the wait for an editor that does not read when the agent has ended.
	lastLines = 5 * time.Second
)

// A Use is what the agent wanted of the editor, or what the editor brings the agent.
type Use struct {
	Method   string // such as terminal/create
	Resource string // the command line, the path, the server
	Allowed  bool
	Reason   string
}

// Options are what a relay has to know; all are required.
type Options struct {
	// Root is the project's folder, inside and on the host; Main is the project's own
	// folder where Root is a worktree of it.
	Root, Main string
	// Closed gives why an editor may not open a path of the project for the agent, or not
	// change what is there; empty where it may. The path is absolute, clean and of the
	// project.
	Closed func(path string, change bool) string
	// Named reports whether the person gave a variable to the cloister by name (-e).
	Named func(variable string) bool
	// Record writes a use down. What it cannot write down is not done.
	Record func(ctx context.Context, u Use) error
	// Notice shows the person one line, from any goroutine.
	Notice func(text string)
}

// Ends are the four ends that a relay joins. The relay closes ToAgent.
type Ends struct {
	FromEditor io.Reader
	ToEditor   io.Writer
	FromAgent  io.Reader
	ToAgent    io.WriteCloser
}

// Run passes on what may pass until the agent's output ends, or ctx does. When the editor
// closes its end, the agent's input is closed and left is called. Afterwards a read of
// FromEditor and a write that its reader does not take may stay until these are closed.
func Run(ctx context.Context, o Options, e Ends, left func()) error {
	r := &relay{
		o: o, ctx: ctx, editor: &sender{to: e.ToEditor}, agent: &sender{to: e.ToAgent, closes: true},
		asked: map[string]string{}, asking: map[string]string{},
	}
	go func() {
		if err := r.lines(e.FromEditor, r.fromEditor, r.unreadable); err != nil && !errors.Is(err, io.EOF) {
			r.notice("the editor's end: %v", err)
		}
		_ = e.ToAgent.Close()
		left()
	}()
	done := make(chan error, 1)
	go func() { done <- r.lines(e.FromAgent, r.fromAgent, func(error) error { return nil }) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(lastLines):
			err = errors.New("the editor does not read")
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("relay the agent's messages: %w", err)
}

type relay struct {
	o             Options
	ctx           context.Context // of the relay, which this is
	editor, agent *sender

	mu       sync.Mutex
	asked    map[string]string // requests of the editor that the agent has to answer, by id: the method
	asking   map[string]string // requests of the agent that the editor has to answer
	notices  int
	recorded int
}

// notice shows the person one line, and a bounded number of them: the agent decides how
// often there is a reason.
func (r *relay) notice(format string, args ...any) {
	r.mu.Lock()
	r.notices++
	n := r.notices
	r.mu.Unlock()
	switch {
	case n < maxNotices:
		r.o.Notice(termsafe.Text(termsafe.Clip(fmt.Sprintf(format, args...), 500)))
	case n == maxNotices:
		r.o.Notice("further notices about the agent's messages are left out; see: cloister audit tail")
	}
}

// refused records a request of the agent that is refused, and shows it.
func (r *relay) refused(u Use) {
	r.mu.Lock()
	r.recorded++
	n := r.recorded
	r.mu.Unlock()
	switch {
	case n > maxRecords:
		return
	case n == maxRecords:
		u.Reason += "; further ones of this session are refused without a record"
	}
	if err := r.record(u); err != nil {
		r.notice("refused %s; it could not be recorded: %v", u.Method, err)
		return
	}
	r.notice("refused %s: %s", strings.TrimSpace(u.Method+" "+u.Resource), u.Reason)
}

func (r *relay) record(u Use) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), recordWithin)
	defer cancel()
	return r.o.Record(ctx, u)
}

// lines hands each line that is one strict JSON object to take, and why another is none to
// bad. An error of either ends it.
func (r *relay) lines(from io.Reader, take func(message) error, bad func(error) error) error {
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := mcp.ReadLine(in, mcp.MaxFrame)
		if _, long := errors.AsType[*mcp.LongLine](err); long { // what follows cannot be trusted to be a message
			return err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			m, unread := read(line)
			if unread != nil {
				r.notice("left out a line that is no message: %v", unread)
				unread = bad(unread)
			} else {
				unread = take(m)
			}
			if unread != nil {
				return unread
			}
		}
		if err != nil {
			return err
		}
	}
}

// unreadable answers a line of the editor that is no message.
func (r *relay) unreadable(why error) error {
	return r.editor.send(refusal([]byte("null"), codeParse, "cannot read this: %v", why))
}
