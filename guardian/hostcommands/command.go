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
		Inside:  "/work", Foreign: append(slices.Clone(s.foreign), s.Info.Project), Env: s.desk.o.Env,
		Resolver: s.desk.o.Resolver,
	}
	for _, e := range host.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			host.Path = path
		}
	}
	if len(s.desk.o.Helper) > 0 {
		host.Self = []string{s.desk.o.Helper[0]}
	}
	return host
}

// serve judges, asks, records, looks again, runs, records.
func (h *hosted) serve(ctx context.Context, req hostexec.Request) hostexec.Exit {
	s := h.s
	if service, url, ok := req.OfGit(); ok {
		return h.serveGit(ctx, req, service, url)
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
	if len(s.desk.o.Helper) == 0 || s.Info.Workspace == "none" {
		return h.refuse(ctx, &hostexec.Refused{Reason: "no command runs on the host for this cloister: it has no project, or the host no helper"})
	}
	p, err := hostexec.Prepare(req, s.host())
	if err != nil {
		return h.refuse(ctx, err)
	}
	defer p.Close()
	nonce := sessionctx.Nonce()
	h.digest = p.Digest(s.Info.ID, s.Info.Project, s.Digest(), nonce)
	v, granted := h.judge(ctx, p)
	e := h.event(audit.HostexecRequest, "request")
	e.Path, e.Rule, e.Reason, e.Verdict = p.Program, v.Rule, v.Reason, v.Effect.String()
	if err := s.Records.Append(ctx, e); err != nil {
		return unrecorded(err)
	}
	if !granted {
		s.Tally.RefusedCommand(v)
		return refusedBy(v)
	}
	s.Tally.Allowed("")
	// Whatever was asked and answered: what runs is what stands there now, and
	// the rules are those of now.
	now, err := p.Again()
	if err != nil {
		return h.refuse(ctx, err)
	}
	defer now.Close()
	if again := sessionctx.JudgeCommand(s.Scope.Load().Host, &now.Command); again.Effect == hostexec.Deny {
		return h.refuse(ctx, &hostexec.Refused{Reason: "the rules changed: " + again.Reason})
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
	h.s.Tally.RefusedCommand(hostexec.Verdict{Reason: err.Error()})
	return exit
}

// judge is what the rules say or, where that is ask, a person. It is the only
// place that grants.
func (h *hosted) judge(ctx context.Context, p *hostexec.Prepared) (v hostexec.Verdict, granted bool) {
	v = sessionctx.JudgeCommand(h.s.Scope.Load().Host, &p.Command)
	switch v.Effect {
	case hostexec.Deny:
		return v, false
	case hostexec.Auto:
		if d, ok := h.s.Remembered(config.DecisionHostexec, p.Grant()); ok && d.Answer == config.AnsweredDeny {
			return rememberedVerdict(d), false
		}
		return v, true
	case hostexec.Ask:
	}
	if d, ok := h.s.Remembered(config.DecisionHostexec, p.Grant()); ok {
		return rememberedVerdict(d), d.Answer == config.AnsweredAllow
	}
	if p.Size() > hostexec.MaxShown {
		v.Effect = hostexec.Deny
		v.Reason = fmt.Sprintf("%s; but its arguments have %d bytes, and nobody can look at more than %d", v.Reason, p.Size(), hostexec.MaxShown)
		return v, false
	}
	return answered(h.s, v, h.s.Queue.Ask(ctx, h.question(p, v)))
}

// answered is the verdict of the end of a question; v is what had asked.
func answered(s *Session, v hostexec.Verdict, a approval.Answer) (verdict hostexec.Verdict, granted bool) {
	switch a.Outcome {
	case approval.Allowed:
		s.Tally.Asked()
		return hostexec.Verdict{Effect: hostexec.Auto, Rule: "approval " + a.ID, Reason: "a person allowed it: " + sessionctx.Word(a)}, true
	case approval.Denied:
		s.Tally.Asked()
		return hostexec.Verdict{Rule: "approval " + a.ID, Reason: "a person denied it: " + sessionctx.Word(a)}, false
	default:
		v.Reason = sessionctx.End(a.Outcome) + ": " + v.Reason
		if a.Outcome == approval.Unwatched {
			v.Hint = "on the host, then again: cloister approvals watch"
		}
		return v, false
	}
}

// question is what a person looks at.
func (h *hosted) question(p *hostexec.Prepared, v hostexec.Verdict) *approval.Ask {
	a := &approval.Ask{
		Kind: approval.Hostexec, Subject: h.line, Title: "run on the host: " + h.line,
		Reason: v.Reason, Rule: v.Rule, Policy: h.s.Digest(),
		// The digest holds a nonce: each request is a question of its own.
		Digest: h.digest, Grant: p.Grant(), Marks: p.Marks(),
		Wide: "exactly this command, in this folder, with these arguments and everything else shown here, as often as it is asked for",
	}
	for _, line := range p.Shown() {
		a.Details = append(a.Details, approval.Detail{Label: line[0], Text: line[1]})
	}
	return h.s.InName(a)
}

// run runs what was granted, once, and records how it ended.
func (h *hosted) run(ctx context.Context, p *hostexec.Prepared) hostexec.Exit {
	s := h.s
	began := time.Now()
	way, lacks, err := s.desk.way()
	if err != nil {
		return h.refuse(ctx, err)
	}
	e := h.event(audit.HostexecRequest, "start")
	e.Path, e.Verdict, e.Reason = p.Program, policy.Allow.String(), "it is what was judged; in "+p.Dir+lacks
	if err := s.Records.Append(ctx, e); err != nil {
		s.desk.closeGroup(way.Group)
		return unrecorded(err)
	}
	shown := s.desk.o.Commands.Begin(s.Info.Name, h.line, p.Dir)
	h.conn.Show(shown.Write)
	s.desk.Began()
	res, err := p.Run(ctx, way, h.conn)
	s.desk.closeGroup(way.Group)
	s.desk.Ended()
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
		e.Reason = strings.TrimPrefix(fmt.Sprintf("%s; %d credentials of the vault were taken out of what it wrote", e.Reason, res.Redacted), "; ")
	}
	shown.End(exit.Status, e.Reason)
	ms := time.Since(began).Milliseconds()
	e.ExitStatus, e.BytesUp, e.BytesDown, e.DurationMS = &exit.Status, &res.Up, &res.Down, &ms
	s.Record(context.WithoutCancel(ctx), e)
	return exit
}
