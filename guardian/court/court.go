// Package court decides about every action of a session that policy has a say in:
// connections, requests, logins, secrets, MCP calls, host commands and git.
//
// Promise: each goes through [Decide], in one order. The policy of now is asked, then what
// a person answered before, then a person; then the record is written, and only then the
// action is counted and may take effect. What cannot be recorded, what a person did not
// answer, and what is too large to be looked at is refused, with the reason.
//
// It knows no connection, command, server or secret. A caller describes the action as a
// [Case], and carries out its effect where the [Ruling] allows it.
//
// Most readers want [Decide].
package court

import (
	"context"
	"fmt"

	"cloister/approval"
	"cloister/audit"
	"cloister/guardian/sessionctx"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// Unwatched is why an ask is refused at once: no person can be asked.
const Unwatched = "would have asked, but nobody is watching"

// A Case is one action that is to be decided. Only Policy is required.
type Case struct {
	// Policy is what the policy of now says. It is asked again after each answer.
	Policy func() Ruling
	// Remembered is a person's answer that is kept outside of the policy; false for none.
	// It is given what the policy says.
	Remembered func(policy.Verdict) (policy.Verdict, bool)
	// Question is what a person is asked; the court adds the session, the rule and the
	// reason. An error says why it cannot be shown to a person. Nil: no person is asked.
	Question func(policy.Verdict) (approval.Ask, error)
	// Keep keeps a person's allow for what depends on this action and is decided later. It
	// is given the verdict that asked.
	Keep func(asked policy.Verdict, word string)
	// Event is the record of the ruling; false where nothing new happens.
	Event func(Ruling) (audit.Event, bool)
	// Count counts what has been recorded, or could not be.
	Count func(Ruling)
}

// A Ruling is the verdict of the court. Its zero value is a deny.
type Ruling struct {
	policy.Verdict
	// Digest is that of the policy.
	Digest string
	// Why says for what reason an ask is refused. A Policy that sets it has no person
	// asked.
	Why string
	// By is the person who answered; empty where none did, or only once the policy knew.
	By string
	// Unrecorded is the error of the record.
	Unrecorded error
}

// Allowed reports whether the action may take effect.
func (r *Ruling) Allowed() bool { return r.Effect == policy.Allow }

// FullReason is the reason, with that of an ask which was refused before it.
func (r *Ruling) FullReason() string {
	if r.Effect == policy.Ask && r.Why != "" {
		return r.Why + ": " + r.Reason
	}
	return r.Reason
}

// Decide is the only way to an effect: policy, remembered answers, a person, the record,
// the count. It may wait for a person as long as ctx lives.
func Decide(ctx context.Context, s *sessionctx.Context, c Case) Ruling {
	r := c.settle(ctx, s)
	if c.Event != nil {
		e, isNew := c.Event(r)
		if !isNew {
			return r
		}
		if err := s.Records.Append(ctx, e); err != nil {
			r = Ruling{Verdict: policy.Verdict{Reason: Unrecorded(err)}, Digest: r.Digest, Unrecorded: err}
			if ctx.Err() != nil {
				r.Reason = "the session has ended"
				return r
			}
		}
	}
	if c.Count != nil {
		c.Count(r)
	}
	return r
}

// Unrecorded is the reason of a refusal because the record could not be written.
func Unrecorded(err error) string {
	return "this could not be recorded, so it may not happen: " + err.Error()
}

// settle asks policy, what is remembered and a person, until one has the last word.
func (c *Case) settle(ctx context.Context, s *sessionctx.Context) Ruling {
	for {
		r := c.Policy()
		if c.Remembered != nil {
			if v, ok := c.Remembered(r.Verdict); ok {
				return Ruling{Verdict: v, Digest: r.Digest}
			}
		}
		if r.Effect != policy.Ask || r.Why != "" {
			return r
		}
		if c.Question == nil {
			r.Why = Unwatched
			return r
		}
		if !s.Queue.Watched(s.Info.ID) { // then nothing is read for the sake of a question
			return unasked(r, approval.Unwatched)
		}
		ask, err := c.Question(r.Verdict)
		if err != nil {
			r.Effect, r.Reason = policy.Deny, fmt.Sprintf("%s; but %v", r.Reason, err)
			return r
		}
		complete(&ask, s, r)
		a := s.Queue.Ask(ctx, &ask)
		switch a.Outcome {
		case approval.Allowed, approval.Denied:
			s.Tally.Asked()
			if out, last := c.answered(r, a); last {
				return out
			}
		case approval.Superseded:
		default:
			return unasked(r, a.Outcome)
		}
		// The policy or what is remembered has the answer by now.
	}
}

// unasked is the ruling where a question ended without an answer, or could not be asked.
func unasked(r Ruling, o approval.Outcome) Ruling {
	if r.Why = End(o); o == approval.Unwatched && len(r.Hints) == 0 {
		r.Hints = []string{"on the host, then again: cloister approvals watch"}
	}
	return r
}

// answered is the ruling by a person's answer for once. One that holds for longer has
// become part of the policy or is remembered, and a policy that changed while the person
// thought overrides an allow.
func (c *Case) answered(asked Ruling, a approval.Answer) (r Ruling, last bool) {
	word := Word(a)
	asked.By = a.Reply.By
	if a.Outcome == approval.Allowed && c.Keep != nil {
		c.Keep(asked.Verdict, word)
	}
	if a.Reply.Scope != approval.Once {
		return r, false
	}
	if a.Outcome == approval.Denied {
		asked.Verdict = Answered(asked.Verdict, policy.Deny, word)
		return asked, true
	}
	now := c.Policy()
	if now.Effect == policy.Ask {
		now.Verdict, now.Why, now.By = Answered(now.Verdict, policy.Allow, word), "", a.Reply.By
	}
	return now, true
}

// complete adds to a question whose it is, and what asks.
func complete(a *approval.Ask, s *sessionctx.Context, r Ruling) {
	a.SessionID, a.Session, a.Project, a.Agent = s.Info.ID, s.Info.Name, s.Info.Project, s.Info.Agent
	a.Rule, a.Policy = r.RuleAt(), r.Digest
	if a.Reason == "" {
		a.Reason = r.Reason
	}
	if a.Marks == "" {
		a.Marks = termsafe.Marks(a.Subject)
	}
	for _, line := range []approval.Detail{{Label: "session", Text: s.Info.Name},
		{Label: "project", Text: s.Info.Project}} {
		if line.Text != "" {
			line.Text = termsafe.Clip(line.Text, 1024)
			a.Details = append(a.Details, line)
		}
	}
}

// Fits is an error for what is larger than a person looks at: what, such as "its query
// has", comes before the size.
func Fits(what string, size, most int) error {
	if size <= most {
		return nil
	}
	return fmt.Errorf("%s %d bytes, and a person is shown %d at most", what, size, most)
}

// End describes how a question ended without an answer.
func End(o approval.Outcome) string {
	switch o {
	case approval.Expired:
		return "nobody answered in time"
	case approval.Withdrawn:
		return "nobody waits for it any more"
	case approval.Superseded:
		return "the policy changed and is asked again"
	case approval.Unwatched:
		return Unwatched
	case approval.Overflow:
		return "would have asked, but this session asks too much already"
	case approval.Unrecorded:
		return "the question could not be recorded"
	case approval.Allowed, approval.Denied, approval.Pending:
	}
	return string(o)
}

// Word names an answer.
func Word(a approval.Answer) string {
	return fmt.Sprintf("approval %s, by %s, scope %s", a.ID, a.Reply.By, a.Reply.Scope)
}

// Answered is the verdict of an answer to asked that no policy holds.
func Answered(asked policy.Verdict, e policy.Effect, word string) policy.Verdict {
	v := policy.Verdict{Effect: e, Rule: "approval", Reason: "a person allowed it: " + word}
	v.Inspect, v.Judged, v.Rewrites = asked.Inspect, asked.Judged, asked.Rewrites
	if e == policy.Deny {
		v.Reason = "a person denied it: " + word
	}
	return v
}
