package guardian

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/ward"
	"cloister/hostexec"
	"cloister/internal/cgroup"
	"cloister/internal/termsafe"
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

// serveHost serves one request for a command on the host.
func (l *live) serveHost(ctx context.Context, raw net.Conn) {
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
	l.commands.Add(1)
	defer l.commands.Add(-1)
	exit := hostexec.Exit{Status: statusUnable}
	switch {
	case err != nil:
		exit.Refused = err.Error()
	case l.commands.Load() > maxHosted:
		err = fmt.Errorf("more than %d host commands at once", maxHosted)
		exit.Refused, exit.Status = err.Error(), statusRefused
	default:
		h := &hosted{l: l, conn: conn}
		exit = h.serve(ctx, req)
	}
	if err != nil {
		e := l.hostEvent(audit.HostexecRequest, "refuse")
		e.Verdict, e.Reason = policy.Deny.String(), err.Error()
		l.Record(context.WithoutCancel(ctx), e)
	}
	_ = conn.End(exit) // a caller that left needs no last word
}

// hosted is one request for a host command.
type hosted struct {
	l      *live
	conn   *hostexec.Conn
	digest string
	line   string
}

func (l *live) hostEvent(kind audit.Kind, action string) audit.Event {
	e := l.Event()
	e.Kind, e.Action = kind, action
	return e
}

func (h *hosted) event(kind audit.Kind, action string) audit.Event {
	e := h.l.hostEvent(kind, action)
	e.Resource, e.Digest = h.line, h.digest
	return e
}

// host is what the person's side knows.
func (l *live) host() hostexec.Host {
	host := hostexec.Host{
		Project: cmp.Or(l.Info.Path, l.Info.Project), // of a worktree: its own folder
		Inside:  "/work", Foreign: append(slices.Clone(l.foreign), l.Info.Project), Env: l.g.o.HostEnv,
	}
	for _, e := range host.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok {
			host.Path = path
		}
	}
	if len(l.g.o.Helper) > 0 {
		host.Self = []string{l.g.o.Helper[0]}
	}
	return host
}

// serve judges, asks, records, looks again, runs, records.
func (h *hosted) serve(ctx context.Context, req hostexec.Request) hostexec.Exit {
	l := h.l
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
	if len(l.g.o.Helper) == 0 || l.Info.Workspace == "none" {
		return h.refuse(ctx, &hostexec.Refused{Reason: "no command runs on the host for this cloister: it has no project, or the host no helper"})
	}
	p, err := hostexec.Prepare(req, l.host())
	if err != nil {
		return h.refuse(ctx, err)
	}
	defer p.Close()
	nonce := newNonce()
	h.digest = p.Digest(l.Info.ID, l.Info.Project, l.Digest(), nonce)
	v, granted := h.judge(ctx, p)
	e := h.event(audit.HostexecRequest, "request")
	e.Path, e.Rule, e.Reason, e.Verdict = p.Program, v.Rule, v.Reason, v.Effect.String()
	if err := l.Records.Append(ctx, e); err != nil {
		return unrecorded(err)
	}
	if !granted {
		l.Tally.RefusedCommand(v)
		return refusedBy(v)
	}
	l.Tally.Allowed()
	// Whatever was asked and answered: what runs is what stands there now, and
	// the rules are those of now.
	now, err := p.Again()
	if err != nil {
		return h.refuse(ctx, err)
	}
	defer now.Close()
	if again := ward.JudgeCommand(l.Scope.Load().Host, &now.Command); again.Effect == hostexec.Deny {
		return h.refuse(ctx, &hostexec.Refused{Reason: "the rules changed: " + again.Reason})
	}
	return h.run(ctx, now)
}

func newNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return hex.EncodeToString(b[:])
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
	h.l.Record(context.WithoutCancel(ctx), e)
	h.l.Tally.RefusedCommand(hostexec.Verdict{Reason: err.Error()})
	return exit
}

// judge is what the rules say or, where that is ask, a person. It is the only
// place that grants.
func (h *hosted) judge(ctx context.Context, p *hostexec.Prepared) (v hostexec.Verdict, granted bool) {
	v = ward.JudgeCommand(h.l.Scope.Load().Host, &p.Command)
	switch v.Effect {
	case hostexec.Deny:
		return v, false
	case hostexec.Auto:
		if d, ok := h.l.remembered(config.DecisionHostexec, p.Grant()); ok && d.Answer == config.AnsweredDeny {
			return hostexec.Verdict{Rule: "approval " + d.ID, Reason: "a person denied exactly this: approval " + d.ID}, false
		}
		return v, true
	case hostexec.Ask:
	}
	if d, ok := h.l.remembered(config.DecisionHostexec, p.Grant()); ok {
		if d.Answer != config.AnsweredAllow {
			return hostexec.Verdict{Rule: "approval " + d.ID, Reason: "a person denied exactly this: approval " + d.ID}, false
		}
		return hostexec.Verdict{Effect: hostexec.Auto, Rule: "approval " + d.ID, Reason: "a person allowed exactly this: approval " + d.ID}, true
	}
	if p.Size() > hostexec.MaxShown {
		v.Effect = hostexec.Deny
		v.Reason = fmt.Sprintf("%s; but its arguments have %d bytes, and nobody can look at more than %d", v.Reason, p.Size(), hostexec.MaxShown)
		return v, false
	}
	a := h.l.Queue.Ask(ctx, h.question(p, v))
	switch a.Outcome {
	case approval.Allowed:
		h.l.Tally.Asked()
		return hostexec.Verdict{Effect: hostexec.Auto, Rule: "approval " + a.ID, Reason: "a person allowed it: " + ward.Word(a)}, true
	case approval.Denied:
		h.l.Tally.Asked()
		return hostexec.Verdict{Rule: "approval " + a.ID, Reason: "a person denied it: " + ward.Word(a)}, false
	default:
		v.Reason = ward.End(a.Outcome) + ": " + v.Reason
		if a.Outcome == approval.Unwatched {
			v.Hint = "on the host, then again: cloister approvals watch"
		}
		return v, false
	}
}

// remembered is the answer that holds for a subject: a deny before an allow.
func (l *live) remembered(kind config.DecisionKind, subject string) (config.Decision, bool) {
	var all []config.Decision
	for _, f := range l.g.policies.Current().Answers() {
		if f.Project == "" || f.Project == l.Info.Project {
			all = append(all, f.Decisions...)
		}
	}
	l.g.reloading.RLock()
	all = append(all, l.words.Answers...)
	l.g.reloading.RUnlock()
	all = slices.DeleteFunc(all, func(d config.Decision) bool {
		return d.Kind != kind || d.Subject != subject
	})
	for _, d := range all {
		if d.Answer == config.AnsweredDeny {
			return d, true
		}
	}
	if len(all) > 0 {
		return all[0], true
	}
	return config.Decision{}, false
}

// question is what a person looks at.
func (h *hosted) question(p *hostexec.Prepared, v hostexec.Verdict) *approval.Ask {
	a := &approval.Ask{
		Kind: approval.Hostexec, Subject: h.line, Title: "run on the host: " + h.line,
		Reason: v.Reason, Rule: v.Rule, Policy: h.l.Digest(),
		// The digest holds a nonce: each request is a question of its own.
		Digest: h.digest, Grant: p.Grant(), Marks: p.Marks(),
	}
	for _, line := range p.Shown() {
		a.Details = append(a.Details, approval.Detail{Label: line[0], Text: line[1]})
	}
	return h.l.InName(a)
}

// run runs what was granted, once, and records how it ended.
func (h *hosted) run(ctx context.Context, p *hostexec.Prepared) hostexec.Exit {
	l := h.l
	began := time.Now()
	way, lacks := l.g.hostWay()
	e := h.event(audit.HostexecRequest, "start")
	e.Path, e.Verdict, e.Reason = p.Program, policy.Allow.String(), "it is what was judged; in "+p.Dir+lacks
	if err := l.Records.Append(ctx, e); err != nil {
		l.g.closeGroup(way.Group)
		return unrecorded(err)
	}
	shown := l.g.commands.Begin(l.Info.Name, h.line, p.Dir)
	h.conn.Show(shown.Write)
	l.g.hosted.Add(1)
	res, err := p.Run(ctx, way, h.conn)
	l.g.closeGroup(way.Group)
	l.g.hosted.Add(-1)
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
	shown.End(exit.Status, e.Reason)
	ms := time.Since(began).Milliseconds()
	e.ExitStatus, e.BytesUp, e.BytesDown, e.DurationMS = &exit.Status, &res.Up, &res.Down, &ms
	l.Record(context.WithoutCancel(ctx), e)
	return exit
}

// hostWay is how the next host command runs: in a control group of its own, where
// this host gives one. lacks says for the record what it does not give.
func (g *guardian) hostWay() (way hostexec.Way, lacks string) {
	way = hostexec.Way{Helper: g.o.Helper}
	if l := g.policies.Current().Config(); l != nil {
		c := l.Hostexec.Limits
		way.Limits = hostexec.Limits{Time: time.Duration(c.Time), CPU: time.Duration(c.CPU), Memory: int64(c.Memory), PIDs: c.PIDs}
	}
	<-g.swept // its names are like this one
	group, memory, err := hostexec.NewGroup(groupPrefix(g.o.Dirs.Runtime)+newNonce()[:8], way.Limits)
	if err != nil {
		return way, "; its memory and processes are not bounded: " + err.Error()
	}
	way.Group, way.Limits.Memory = group, memory
	return way, ""
}

// groupPrefix begins the names of the control groups of this instance's host
// commands: the next guardian ends what it finds under it.
func groupPrefix(runtime string) string {
	sum := sha256.Sum256([]byte(runtime))
	return "host-cloister-" + hex.EncodeToString(sum[:4]) + "-"
}

func (g *guardian) closeGroup(group *cgroup.Group) {
	if group == nil {
		return
	}
	if err := group.Close(); err != nil {
		g.notice("a host command's control group: " + err.Error())
	}
}

func (g *guardian) getCommands(http.ResponseWriter, *http.Request) (any, error) {
	return g.commands.All(), nil
}

func (g *guardian) getCommand(_ http.ResponseWriter, r *http.Request) (any, error) {
	if c, ok := g.commands.Find(r.PathValue("id")); ok {
		return c, nil
	}
	return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: fmt.Sprintf("no host command %q since the guardian began", termsafe.Clip(r.PathValue("id"), 20))}
}

// ofHostCommand says whether a process belongs to a host command or an MCP server:
// its parents lead to this process, through the helper, which adopts what it leaves.
// What a cloister had approved is no person. While one runs, a caller that is
// gone is taken for its: it may have left the connection to its child.
func (g *guardian) ofHostCommand(r *http.Request) bool {
	peer, ok := peerOf(r.Context())
	if g.hosted.Load() == 0 || !ok {
		return false
	}
	for pid, self := peer.PID, os.Getpid(); pid > 1; {
		if pid == self {
			return peer.PID != self // the guardian's own calls are tests'
		}
		if _, own := g.tools.Load(pid); own {
			return false // what the guardian itself calls for the window
		}
		parent, known := parentOf(pid)
		if !known {
			return true
		}
		pid = parent
	}
	return false
}

// refusedByOrigin tells everybody who should know.
func (g *guardian) refusedByOrigin(r *http.Request) {
	peer, _ := peerOf(r.Context())
	g.notice(fmt.Sprintf("a host command (pid %d) called the guardian itself and was refused: %s %s", peer.PID, r.Method, termsafe.Clip(termsafe.Text(r.URL.Path), 200)))
	if err := g.records.Append(context.WithoutCancel(r.Context()), audit.Event{
		Kind: audit.ApprovalDecision, Action: "refuse", Resource: r.URL.Path, Verdict: policy.Deny.String(), PID: peer.PID,
		Reason: "a host command may not call the guardian", Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		g.log.Error("a refused call could not be recorded", "error", err)
	}
}
