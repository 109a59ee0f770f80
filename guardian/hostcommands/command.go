package hostcommands

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/policy"
)

const (
	// maxHosted bounds the host commands that one session runs or waits for.
	maxHosted = 8
	// headWithin is how long a request may take to arrive.
	headWithin = 10 * time.Second
)

// The exit statuses of what did not run.
const (
	statusUnable   = 125
	statusRefused  = 126
	statusNotFound = 127
)

// Serve serves one request for a command on the host.
func (s *Session) Serve(ctx context.Context, raw net.Conn) {
	if err := raw.SetReadDeadline(time.Now().Add(headWithin)); err != nil {
		return // closed already
	}
	reader := bufio.NewReader(raw)
	req, err := hostexec.ReadRequest(reader)
	if errReset := raw.SetReadDeadline(time.Time{}); errReset != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn := hostexec.NewConn(reader, raw, cancel)
	defer conn.Close()
	s.commands.Add(1)
	defer s.commands.Add(-1)
	exit := hostexec.Exit{Status: statusUnable}
	switch {
	case err != nil:
		exit.Refused = err.Error()
	case s.commands.Load() > maxHosted:
		err = fmt.Errorf("more than %d host commands at once", maxHosted)
		exit.Refused, exit.Status = err.Error(), statusRefused
	default:
		h := &hosted{s: s, conn: conn}
		exit = h.serve(ctx, req)
	}
	if err != nil {
		e := s.event(audit.HostexecRequest, "refuse")
		e.Verdict, e.Reason = policy.Deny.String(), err.Error()
		s.Record(context.WithoutCancel(ctx), e)
	}
	_ = conn.End(exit) // a caller that left needs no last word
}

// hosted is one request for a host command.
type hosted struct {
	s      *Session
	conn   *hostexec.Conn
	digest string
	line   string
	kept   string // why there is no checkpoint before it
}

func (s *Session) event(kind audit.Kind, action string) audit.Event {
	e := s.Event()
	e.Kind, e.Action = kind, action
	return e
}

func (h *hosted) event(kind audit.Kind, action string) audit.Event {
	e := h.s.event(kind, action)
	e.Resource, e.Digest = h.line, h.digest
	return e
}

// host is what the person's side knows.
func (s *Session) host() hostexec.Host {
	host := hostexec.Host{
		Project: cmp.Or(s.Info.Path, s.Info.Project), // of a worktree: its own folder
		Inside:  "/work", Foreign: append(slices.Clone(s.foreign), s.Info.Project), Env: s.service.o.Env,
		Resolver: s.service.o.Resolver,
	}
	for _, e := range host.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			host.Path = path
		}
	}
	if len(s.service.o.Helper) > 0 {
		host.Self = []string{s.service.o.Helper[0]}
	}
	return host
}

// serve judges, asks, records, looks again, runs, records.
func (h *hosted) serve(ctx context.Context, req hostexec.Request) hostexec.Exit {
	s := h.s
	if service, url, ok := req.OfGit(); ok {
		return h.serveGit(ctx, req, service, url)
	}
	if req.OfTurn() {
		return h.serveTurn(ctx)
	}
	for i, a := range req.Argv {
		if i == 0 {
			h.line = ""
		}
		h.line = strings.TrimSpace(h.line + " " + hostexec.Line([]string{string(a)}))
		if len(h.line) > hostexec.MaxShown {
			break
		}
	}
	if len(s.service.o.Helper) == 0 || s.Info.Workspace == "none" {
		return h.refuse(ctx, &hostexec.Refused{Reason: "no command runs on the host for this cloister: it has no project, " +
			"or the host no helper"})
	}
	p, err := hostexec.Prepare(req, s.host())
	if err != nil {
		return h.refuse(ctx, err)
	}
	defer p.Close()
	nonce := sessionctx.Nonce()
	h.digest = p.Digest(s.Info.ID, s.Info.Project, s.Digest(), nonce)
	r := h.decide(ctx, h.commandCase(p), p.Program)
	if !r.Allowed() {
		return refusedBy(r)
	}
	// Whatever was asked and answered: what runs is what stands there now, and
	// the rules are those of now.
	now, err := p.Again()
	if err != nil {
		return h.refuse(ctx, err)
	}
	defer now.Close()
	again := court.JudgeCommand(s.Scope.Load().Host, &now.Command)
	if again.Effect == policy.Deny {
		return h.refuse(ctx, &hostexec.Refused{Reason: "the rules changed: " + again.Reason})
	}
	if again.Effect != policy.Allow { // a person was asked: no rule answers for what it does
		h.kept = s.keepBefore(ctx, h.line)
	}
	return h.run(ctx, now)
}

// refuse records why nothing runs.
func (h *hosted) refuse(ctx context.Context, err error) hostexec.Exit {
	exit := hostexec.Exit{Status: statusUnable, Refused: err.Error()}
	if r, ok := errors.AsType[*hostexec.Refused](err); ok {
		exit.Status = statusRefused
		if r.NotFound {
			exit.Status = statusNotFound
		}
		if r.Hint != "" {
			exit.Hints = []string{r.Hint}
		}
	}
	e := h.event(audit.HostexecRequest, "refuse")
	e.Verdict, e.Reason = policy.Deny.String(), err.Error()
	h.s.Record(context.WithoutCancel(ctx), e)
	h.s.Tally.RefusedCommand(policy.Verdict{Reason: err.Error()})
	return exit
}

// decide brings an action to the court. at is its program, or its remote repository.
func (h *hosted) decide(ctx context.Context, c court.Case, at string) court.Ruling {
	c.Event = func(r court.Ruling) (audit.Event, bool) {
		e := h.event(audit.HostexecRequest, "request")
		e.Path, e.Rule, e.Reason, e.Verdict = at, r.Rule, r.FullReason(), r.Effect.String()
		return e, true
	}
	c.Count = func(r court.Ruling) {
		if r.Allowed() {
			h.s.Tally.Allowed("")
		} else {
			h.s.Tally.RefusedCommand(r.Verdict)
		}
	}
	return court.Decide(ctx, h.s.Context, c)
}

// commandCase is a command for the court.
func (h *hosted) commandCase(p *hostexec.Prepared) court.Case {
	return court.Case{
		Policy: func() court.Ruling {
			return court.Ruling{Verdict: court.JudgeCommand(h.s.Scope.Load().Host, &p.Command), Digest: h.s.Digest()}
		},
		Remembered: func(v policy.Verdict) (policy.Verdict, bool) {
			if v.Effect == policy.Deny {
				return v, false
			}
			d, ok := h.s.Remembered(config.DecisionHostexec, p.Grant())
			if !ok || v.Effect == policy.Allow && d.Answer == config.AnsweredAllow {
				return v, false // the rule speaks
			}
			return rememberedVerdict(d), true
		},
		Question: func(policy.Verdict) (approval.Ask, error) { return h.question(p) },
	}
}

// question is what a person looks at.
func (h *hosted) question(p *hostexec.Prepared) (approval.Ask, error) {
	a := approval.Ask{
		Kind: approval.Hostexec, Subject: h.line, Title: "run on the host: " + h.line,
		// The digest holds a nonce: each request is a question of its own.
		Digest: h.digest, Grant: p.Grant(), Marks: p.Marks(),
		Wide: "exactly this command, in this folder, with these arguments and everything else shown here, as often as it " +
			"is asked for",
	}
	for _, line := range p.Shown() {
		a.Details = append(a.Details, approval.Detail{Label: line[0], Text: line[1]})
	}
	return a, court.Fits("its arguments have", p.Size(), hostexec.MaxShown)
}

// run runs what was granted, once, and records how it ended.
func (h *hosted) run(ctx context.Context, p *hostexec.Prepared) hostexec.Exit {
	s := h.s
	began := time.Now()
	way, lacks, err := s.service.way()
	if err != nil {
		return h.refuse(ctx, err)
	}
	e := h.event(audit.HostexecRequest, "start")
	e.Path, e.Verdict, e.Reason = p.Program, policy.Allow.String(), "it is what was judged; in "+p.Dir+lacks+h.kept
	if err := s.Records.Append(ctx, e); err != nil {
		s.service.closeGroup(way.Group)
		return unrecorded(err)
	}
	shown := s.service.o.Commands.Begin(s.Info.Name, h.line, p.Dir)
	h.conn.Show(shown.Write)
	s.service.Began()
	res, err := p.Run(ctx, way, h.conn)
	s.service.closeGroup(way.Group)
	s.service.Ended()
	exit := hostexec.Exit{Status: res.Status}
	e = h.event(audit.HostexecResult, "end")
	e.Path, e.Reason = p.Program, res.Ended
	switch {
	case err != nil:
		exit.Status, exit.Refused = statusUnable, err.Error()
		if _, is := errors.AsType[*hostexec.Refused](err); is {
			exit.Status = statusRefused
		}
		e.Action, e.Reason = "fail", err.Error()
	case res.Ended != "":
		exit.Refused = "it was ended: " + res.Ended
	}
	if res.Redacted > 0 {
		e.Reason = strings.TrimPrefix(fmt.Sprintf("%s; %d credentials of the vault were taken out of what it wrote", e.Reason,
			res.Redacted), "; ")
	}
	shown.End(exit.Status, e.Reason)
	ms := time.Since(began).Milliseconds()
	e.ExitStatus, e.BytesUp, e.BytesDown, e.DurationMS = &exit.Status, &res.Up, &res.Down, &ms
	s.Record(context.WithoutCancel(ctx), e)
	return exit
}
