// Package livefiles has the shims of running sessions put changed statements about files and
// programs in force.
//
// Promise: a session is asked once for each change, every answer is on record, and one that
// does not answer in time keeps what it was started with, which is said in one line.
//
// It compiles no policy: the shim does, with what its session may be given while it runs.
//
// Most readers want [Session.Ask].
package livefiles

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/sessionctx"
	"cloister/internal/exactjson"
	"cloister/policy"
)

// within bounds an answer: a shim compiles some thousand statements, and the kernel takes them.
const within = 10 * time.Second

// Of are the files among those of the configuration that speak of files and programs.
func Of(files []policy.CedarFile) []api.CedarFile {
	out := []api.CedarFile{}
	for _, f := range files {
		if policy.SpeaksOfFiles(f) {
			out = append(out, api.CedarFile{Name: f.Name, Text: string(f.Text)})
		}
	}
	return out
}

// Session is what one session was asked for. Its zero value was asked for nothing.
type Session struct {
	asking sync.Mutex // one change after the other

	mu     sync.Mutex
	known  bool // in is what its shim has
	in     []api.CedarFile
	number uint64
	answer chan api.Applied
}

// Began says with which files a shim started its session.
func (s *Session) Began(files []api.CedarFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.in = true, files
}

// Ask has a session, which ends with ctx, go on under files. It returns what a person has to know
// of it: nothing where they are in force.
func (s *Session) Ask(
	ctx context.Context, c *sessionctx.Context, send func(api.Frame) error, files []api.CedarFile,
) string {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.has(files) {
		return ""
	}
	a := s.ask(ctx, send, files)
	switch {
	case a.Same:
		s.Began(files)
		return ""
	case a.Ended:
		return ""
	}
	e := c.Event()
	e.Kind, e.Action, e.Resource, e.Verdict = audit.PolicyLoad, "apply", "files and programs", policy.Allow.String()
	e.Reason = "in force from here on, in the kernel"
	if a.Reason != "" {
		e.Verdict, e.Reason = policy.Deny.String(), a.Reason+"; what ruled before rules on"
	}
	c.Record(context.WithoutCancel(ctx), e)
	if a.Reason == "" {
		s.Began(files)
		return ""
	}
	return fmt.Sprintf("%s keeps the statements about files and programs that it has: %s", c.Info.Name, a.Reason)
}

// Closed tells a session that it may reach nothing, since its own rules and the policy do not go together, and gives
// what a person has to know of it.
func Closed(c *sessionctx.Context, send func(api.Frame) error, why error) string {
	text := fmt.Sprintf("%s may reach nothing until its own rules or the policy are changed, "+
		"and keeps its statements about files and programs: %s", c.Info.Name, strings.ReplaceAll(why.Error(), "\n", "; "))
	_ = send(api.Frame{Type: api.FrameNotice, Notice: text}) // it is on record
	return text
}

// unknown has the session be asked again, whatever is wanted of it.
func (s *Session) unknown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
}

func (s *Session) has(files []api.CedarFile) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known && slices.Equal(s.in, files)
}

// ask sends the question and waits for its answer.
func (s *Session) ask(ctx context.Context, send func(api.Frame) error, files []api.CedarFile) api.Applied {
	s.mu.Lock()
	s.number++
	answer := make(chan api.Applied, 1)
	s.answer = answer
	frame := api.Frame{Type: api.FrameFiles, Files: &api.FileRules{Number: s.number, Cedar: files}}
	s.mu.Unlock()
	text, err := exactjson.Marshal(frame)
	switch {
	case err != nil:
		return api.Applied{Reason: err.Error()}
	case len(text) >= api.MaxFrame:
		return api.Applied{Reason: "they are too long for a running session; start it anew"}
	}
	if err := send(frame); err != nil {
		return api.Applied{Ended: true} // its end is on record
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case a := <-answer:
		a.Reason = strings.ReplaceAll(a.Reason, "\n", "; ")
		return a
	case <-ctx.Done():
		return api.Applied{Ended: true} // or the next guardian asks
	case <-late.C:
		s.unknown() // it may put them in force yet
		return api.Applied{Reason: fmt.Sprintf("it did not answer within %v; start it anew", within)}
	}
}

// Answer is a shim's word; one for an earlier question is none.
func (s *Session) Answer(a api.Applied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil || a.Number != s.number {
		return
	}
	s.answer <- a
	s.answer = nil
}
