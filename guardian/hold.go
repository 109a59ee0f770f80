package guardian

import (
	"context"
	"fmt"
	"strings"

	"cloister/approval"
	"cloister/config"
	"cloister/egress"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/authority"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// judge is what becomes of a query: policy's word, or where that is ask, a
// person's. why tells for what reason an ask that is left is refused.
func (l *live) judge(ctx context.Context, q egress.Query) (v policy.Verdict, digest, why string) {
	if q.Once == nil {
		q.Once = new(egress.Once)
	}
	for {
		snapshot := l.Snapshot.Load()
		v := l.tools.Learned(q, sessionctx.Judge(snapshot, l.asked(q)))
		if v.Effect != policy.Ask {
			return v, snapshot.Digest(), ""
		}
		if q.HTTP != nil && v.Judged {
			if v, why, again := l.judgeRequest(ctx, q, v, snapshot.Digest()); !again {
				return v, snapshot.Digest(), why
			}
			continue
		}
		if word, ok := q.Once.Allowed(q.Authority); ok {
			return sessionctx.Answered(v, policy.Allow, word), snapshot.Digest(), ""
		}
		if q.Kind == egress.Resolve || q.Kind == egress.Recheck {
			return v, snapshot.Digest(), sessionctx.Nobody // a name leads nowhere yet; what is open is not asked about again
		}
		ask := l.question(q, v, snapshot.Digest())
		if n := sessionctx.TooLong(ask.Details); n > 0 {
			v.Effect, v.Reason = policy.Deny, fmt.Sprintf("%s; but what is to be looked at has %d bytes, and nobody can", v.Reason, n)
			return v, snapshot.Digest(), ""
		}
		a := l.Queue.Ask(ctx, ask)
		switch a.Outcome {
		case approval.Allowed:
			l.Tally.Asked()
			q.Once.Allow(q.Authority, sessionctx.Word(a))
		case approval.Denied:
			l.Tally.Asked()
			if a.Reply.Scope == approval.Once {
				return sessionctx.Answered(v, policy.Deny, sessionctx.Word(a)), snapshot.Digest(), ""
			}
		case approval.Superseded:
		default:
			return v, snapshot.Digest(), sessionctx.End(a.Outcome)
		}
		// The policy has the answer now, or this connection does.
	}
}

// judgeRequest asks a person about one request where rules read requests: the
// answer is for it alone, and not for others on its connection or to its path,
// whose query or body may be another.
func (l *live) judgeRequest(ctx context.Context, q egress.Query, v policy.Verdict, digest string) (out policy.Verdict, why string, again bool) {
	if q.Kind == egress.Recheck {
		if q.Once.RequestAllowed(q.HTTP) {
			return sessionctx.Answered(v, policy.Allow, "this request"), "", false
		}
		return v, sessionctx.Nobody, false
	}
	query := q.HTTP.Query
	if len(query) > hostexec.MaxShown {
		v.Effect = policy.Deny
		v.Reason = fmt.Sprintf("%s; but its query has %d bytes, and nobody can look at more than %d", v.Reason, len(query), hostexec.MaxShown)
		return v, "", false
	}
	ask := l.question(q, v, digest)
	ask.Kind, ask.Subject, ask.Wildcard = approval.Request, q.Method+" "+q.Authority.String()+q.Path, ""
	ask.Title, ask.Marks = "send "+ask.Subject, termsafe.Marks(ask.Subject)
	ask.Digest = sessionctx.Nonce() // equal questions would share an answer
	if n := sessionctx.TooLong(ask.Details); n > 0 {
		v.Effect, v.Reason = policy.Deny, fmt.Sprintf("%s; but what is to be looked at has %d bytes, and nobody can", v.Reason, n)
		return v, "", false
	}
	ask.Scopes = []approval.Scope{approval.Once}
	a := l.Queue.Ask(ctx, ask)
	switch a.Outcome {
	case approval.Allowed, approval.Denied:
		l.Tally.Asked()
		effect := policy.Deny
		if a.Outcome == approval.Allowed {
			effect = policy.Allow
			q.Once.AllowRequest(q.HTTP)
		}
		return sessionctx.Answered(v, effect, sessionctx.Word(a)), "", false
	case approval.Superseded:
		return v, "", true
	default:
		return v, sessionctx.End(a.Outcome), false
	}
}

// question is what a person is asked about a destination.
func (l *live) question(q egress.Query, v policy.Verdict, digest string) *approval.Ask {
	subject := q.Authority.String()
	a := &approval.Ask{
		Kind: approval.Network, Subject: subject, Title: "connect to " + subject,
		Reason: v.Reason, Rule: v.RuleAt(), Policy: digest,
		Wildcard: sessionctx.Wildcard(q.Authority), Marks: termsafe.Marks(subject),
		Details: []approval.Detail{{Label: "destination", Text: subject}},
	}
	a.Wide = "every connection to " + subject + ", with any request on it"
	if q.Method != "" || q.HTTP != nil {
		a.Details = append(a.Details, sessionctx.ShownRequest(q.Method, q.Path, q.HTTP)...)
	}
	if q.Via != "" && q.Via != egress.ViaDirect {
		a.Details = append(a.Details, approval.Detail{Label: "by way of", Text: q.Via})
	}
	return l.InName(a, "command", strings.Join(l.Info.Command, " "))
}

// settled says whether the policy has an answer to a question by now.
func (l *live) settled(i approval.Item) bool {
	if i.Kind == approval.MCP {
		return l.tools.Settled(i.Subject)
	}
	if i.Kind == approval.Secret {
		_, answered := l.Remembered(config.DecisionSecret, i.Subject)
		return answered
	}
	if i.Kind != approval.Network {
		return false
	}
	a, err := authority.ParseHostPort(i.Subject, 0)
	if err != nil {
		return true // whoever waits asks policy again
	}
	v := sessionctx.Judge(l.Snapshot.Load(), policy.Request{
		Action: policy.NetworkConnect, Authority: a, Session: l.Info.Name, Project: l.Info.Project, Agent: l.Info.Agent,
	})
	return v.Effect != policy.Ask
}
