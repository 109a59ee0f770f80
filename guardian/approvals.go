package guardian

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/guardian/court"
	"cloister/guardian/filequestions"
	"cloister/guardian/instance"
	"cloister/guardian/question"
	"cloister/guardian/sessionctx"
	"cloister/internal/authority"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/ui/web"
)

// newQueue is the guardian's one queue of questions.
func (g *guardian) newQueue() *approval.Queue {
	return approval.New(approval.Options{
		Timeout: func() time.Duration { return time.Duration(g.policies.Current().Config().Proxy.ApprovalTimeout) },
		Opened:  g.recordAsked,
		Decide:  g.decided,
		Ended:   g.recordEnded,
		Changed: g.changed,
		Reached: g.notifier.Reached,
	})
}

// changed tells everybody who watches, and the desktop, of a question that
// appeared or ended.
func (g *guardian) changed(i approval.Item) {
	g.bus.Publish(api.EventApproval, question.Shown(i))
	g.notifier.Changed(g.queue.Len(), i)
}

// approvalEvent is the frame of every event about a question.
func (g *guardian) approvalEvent(i approval.Item) audit.Event {
	e := audit.Event{
		Session: i.Session, SessionID: i.SessionID, Project: i.Project, Agent: i.Agent,
		Resource: i.Subject, Rule: i.Rule, Policy: i.Policy, Digest: i.Digest,
	}
	if i.Kind == approval.Network {
		if a, err := authority.ParseHostPort(i.Subject, 0); err == nil {
			e.Host, e.Port = a.Host(), a.Port()
		}
	}
	return e
}

func (g *guardian) recordAsked(ctx context.Context, i approval.Item) error {
	e := g.approvalEvent(i)
	e.Kind, e.Action, e.Verdict = audit.ApprovalRequest, "ask", policy.Ask.String()
	e.Reason = "approval " + i.ID + ": " + i.Reason
	return g.records.Append(ctx, e)
}

// recordEnded records a question that no one answered. Nothing follows from it,
// so nothing has to be stopped when it cannot be written.
func (g *guardian) recordEnded(i approval.Item) {
	e := g.approvalEvent(i)
	e.Kind, e.Action, e.Verdict = audit.ApprovalDecision, string(i.Outcome), policy.Deny.String()
	e.Reason = "approval " + i.ID + ": " + court.End(i.Outcome)
	if i.Outcome == approval.Superseded {
		e.Verdict = ""
	}
	g.records.Note(context.WithoutCancel(g.ctx), e)
}

// decided makes an answer hold: first the record, then what remembers it.
func (g *guardian) decided(ctx context.Context, i approval.Item, r approval.Reply) error {
	// Who answered may hang up; the answer is given all the same.
	ctx = context.WithoutCancel(ctx)
	e := g.approvalEvent(i)
	e.Kind, e.Action, e.Verdict = audit.ApprovalDecision, string(r.Scope), effectOf(r).String()
	e.Reason = fmt.Sprintf("approval %s: %s by %s, scope %s", i.ID, e.Verdict, r.By, r.Scope)
	if r.Scope != approval.Once {
		e.Reason += ": " + i.Covers(r.Scope)
	}
	if r.Subject != "" {
		e.Resource = r.Subject
	}
	if err := g.records.Append(ctx, e); err != nil {
		return api.Unrecorded("answer", err)
	}
	err := g.keepAnswer(ctx, i, r)
	if err != nil {
		e.Verdict, e.Action = "", "failed"
		e.Reason = fmt.Sprintf("approval %s: the answer could not be remembered and does not count: %v", i.ID, err)
		g.records.Note(ctx, e)
	}
	return err
}

func effectOf(r approval.Reply) policy.Effect {
	if r.Allow {
		return policy.Allow
	}
	return policy.Deny
}

func (g *guardian) getApprovals(_ http.ResponseWriter, r *http.Request) (any, error) {
	list := []api.Approval{}
	for _, i := range g.queue.Pending() {
		list = append(list, question.Shown(i))
	}
	if r.URL.Query().Get("all") != "" {
		for _, i := range g.queue.History() {
			list = append(list, question.Shown(i))
		}
	}
	return list, nil
}

func (g *guardian) getApproval(_ http.ResponseWriter, r *http.Request) (any, error) {
	i, err := g.queue.Find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return question.Shown(i), nil
}

func (g *guardian) postFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	l, err := g.running(r.PathValue("name"))
	if err == nil {
		return filequestions.Serve(l.ctx, r, &l.Context, l)
	}
	return nil, err
}

func (g *guardian) postApprove(_ http.ResponseWriter, r *http.Request) (any, error) {
	return g.postAnswer(r, true)
}

func (g *guardian) postDeny(_ http.ResponseWriter, r *http.Request) (any, error) {
	return g.postAnswer(r, false)
}

// postAnswer gives a person's word on one question.
func (g *guardian) postAnswer(r *http.Request, allow bool) (any, error) {
	req, err := read[api.ApprovalReply](r)
	if err != nil {
		return nil, err
	}
	i, err := g.queue.Find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	reply, err := replyOf(r, req, i, allow)
	if err != nil {
		return nil, err
	}
	i, err = g.queue.Answer(r.Context(), i.ID, reply)
	if err != nil {
		return nil, err
	}
	return question.Shown(i), nil
}

// replyOf checks what a person said against the question.
func replyOf(r *http.Request, req api.ApprovalReply, i approval.Item, allow bool) (approval.Reply, error) {
	reply := approval.Reply{Allow: allow, Scope: approval.Scope(req.Scope), By: whoAnswers(r, req.Via), Nonce: req.Nonce}
	if reply.Scope == "" {
		reply.Scope = approval.Once
	}
	if !slices.Contains(approval.Scopes(), reply.Scope) {
		return reply, api.BadRequest("answer: scope %q: want once, session, project or global", req.Scope)
	}
	if req.Pattern != "" {
		subject, err := sessionctx.Widened(req.Pattern, i, allow)
		if err != nil {
			return reply, api.BadRequest("answer: %v", err)
		}
		if reply.Scope == approval.Once {
			return reply, api.BadRequest("answer: a pattern is for answers that are remembered: say scope session, project " +
				"or global")
		}
		reply.Subject = subject
	}
	kept := reply.Scope == approval.Project || reply.Scope == approval.Global
	switch {
	case req.Confirm || !allow:
	case i.Marks != "":
		return reply, confirm("what is asked for holds %s", i.Marks)
	case reply.Subject != "" && kept:
		return reply, confirm("%s allows every name below it, also later", reply.Subject)
	}
	return reply, nil
}

func confirm(format string, args ...any) error {
	return &api.Error{
		Status: http.StatusConflict, Code: api.CodeConfirm, Message: "answer: " + fmt.Sprintf(format, args...),
		Hints: []string{"look again at it, then say so: --confirm"},
	}
}

// whoAnswers names the person for the record, by the kernel's word, and the
// program by its own.
func whoAnswers(r *http.Request, via string) string {
	if v := web.From(r.Context()); v != nil {
		// A browser gets in by a link that only this user is given.
		return fmt.Sprintf("uid %d via window %s", os.Getuid(), v.Key)
	}
	peer, ok := instance.PeerOf(r.Context())
	if !ok {
		return "no one known"
	}
	who := fmt.Sprintf("uid %d", peer.UID)
	if via != "" {
		who += " via " + termsafe.Clip(termsafe.Text(via), 32)
	}
	return who
}
