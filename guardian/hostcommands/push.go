package hostcommands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloister/approval"
	"cloister/audit"
	"cloister/git"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// decidePush is where a push is decided. It is the only place that grants one.
func (w *gitwork) decidePush(ctx context.Context, p *git.Push) error {
	w.digest = p.Digest(w.s.Info.ID, w.s.Info.Project, w.s.Digest(), sessionctx.Nonce())
	var lines []string
	for i := range p.Updates {
		lines = append(lines, hostexec.Line(p.Argv(&p.Updates[i])))
	}
	w.line = strings.Join(lines, "; ")
	r := w.decide(ctx, court.Case{
		Policy:   func() court.Ruling { return court.Ruling{Verdict: w.strictest(p), Digest: w.s.Digest()} },
		Question: func(policy.Verdict) (approval.Ask, error) { return w.pushQuestion(p) },
	}, w.remote.URL)
	if !r.Allowed() {
		for _, hint := range r.Hints {
			_ = w.conn.Notice("hint: " + hint) // a caller that is gone needs none
		}
		return errors.New(r.FullReason())
	}
	e := w.event(audit.HostexecRequest, "start")
	e.Path, e.Rule, e.Verdict, e.Reason = w.remote.URL, r.Rule, policy.Allow.String(), "exactly these commits: "+ids(p)
	if err := w.s.Records.Append(ctx, e); err != nil {
		return errors.New(court.Unrecorded(err))
	}
	return ctx.Err()
}

// ids names what is pushed, for the record.
func ids(p *git.Push) string {
	var out []string
	for _, u := range p.Updates {
		out = append(out, u.Ref+" "+u.Old+".."+u.New)
	}
	return strings.Join(out, ", ")
}

// strictest is what the rules say of all updates together.
func (w *gitwork) strictest(p *git.Push) policy.Verdict {
	rules := w.s.Scope.Load().Host
	out := policy.Verdict{Effect: policy.Allow}
	for i := range p.Updates {
		if v := rules.JudgeGit(p.Argv(&p.Updates[i]), w.said); v.Effect < out.Effect || out.Reason == "" {
			out = v
		}
	}
	return out
}

// pushQuestion is what a person is asked about a push: exactly these commits, and once.
func (w *gitwork) pushQuestion(p *git.Push) (approval.Ask, error) {
	a := approval.Ask{
		Subject: w.line, Title: "push to " + w.remote.URL + ": " + summary(p), Digest: w.digest, Marks: p.Marks(),
		Scopes: []approval.Scope{approval.Once},
	}
	size := 0
	for _, line := range p.Shown() {
		size += len(line[0]) + len(line[1])
		a.Details = append(a.Details, approval.Detail{Label: line[0], Text: line[1]})
	}
	if size > 4*hostexec.MaxShown {
		return a, fmt.Errorf("what it would change takes %d bytes to describe, and a person is shown %d at most: push less "+
			"at once", size, 4*hostexec.MaxShown)
	}
	return w.question(a), nil
}

// summary is a push in a few words.
func summary(p *git.Push) string {
	var out []string
	for i := range p.Updates {
		out = append(out, p.Updates[i].Brief())
	}
	return termsafe.Clip(strings.Join(out, "; "), 300)
}

// ended records how it went, and tells git inside.
func (w *gitwork) ended(ctx context.Context, began time.Time, err error) hostexec.Exit {
	exit := hostexec.Exit{}
	e := w.event(audit.HostexecResult, "end")
	e.Path = w.remote.URL
	if err != nil {
		exit.Status, exit.Refused = statusGit, termsafe.Clip(err.Error(), 2048)
		e.Action, e.Reason = "fail", exit.Refused
		if _, told := errors.AsType[*git.Told](err); told {
			exit.Refused = "" // git inside says it
		}
	}
	ms := time.Since(began).Milliseconds()
	e.ExitStatus, e.DurationMS = &exit.Status, &ms
	w.s.Record(context.WithoutCancel(ctx), e)
	return exit
}
