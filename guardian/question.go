package guardian

import (
	"strings"

	"cloister/approval"
	"cloister/config"
	"cloister/egress/verdict"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/authority"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// allowedOnce is what a person allowed for this connection, or for this very request.
func allowedOnce(q verdict.Query, v policy.Verdict) (policy.Verdict, bool) {
	switch {
	case v.Effect != policy.Ask:
	case q.HTTP != nil && v.Judged:
		if q.Kind == verdict.Recheck && q.Once.RequestAllowed(q.HTTP) {
			return court.Answered(v, policy.Allow, "this request"), true
		}
	default:
		if word, ok := q.Once.Allowed(q.Authority); ok {
			return court.Answered(v, policy.Allow, word), true
		}
	}
	return v, false
}

// keepOnce keeps what a person allowed for this connection, or for this very request.
func keepOnce(q verdict.Query, asked policy.Verdict, word string) {
	if q.HTTP != nil && asked.Judged {
		q.Once.AllowRequest(q.HTTP)
	} else {
		q.Once.Allow(q.Authority, word)
	}
}

// question is what a person is asked about a destination or, where rules decide about
// requests, about one request: that answer is for it alone, and not for others on its
// connection or to its path, whose query or body may be another.
func (l *live) question(q verdict.Query, v policy.Verdict) (approval.Ask, error) {
	subject := q.Authority.String()
	a := approval.Ask{
		Kind: approval.Network, Subject: subject, Title: "connect to " + subject,
		Wide:     "every connection to " + subject + ", with any request on it",
		Wildcard: sessionctx.Wildcard(q.Authority),
		Details:  []approval.Detail{{Label: "destination", Text: subject}},
	}
	if q.HTTP != nil && v.Judged {
		if err := court.Fits("its query has", len(q.HTTP.Query), hostexec.MaxShown); err != nil {
			return a, err
		}
		a.Kind, a.Subject, a.Wildcard = approval.Request, q.Method+" "+subject+q.Path, ""
		a.Title = "send " + a.Subject
		a.Digest = sessionctx.Nonce() // equal questions would share an answer
		a.Scopes = []approval.Scope{approval.Once}
	}
	if q.Method != "" || q.HTTP != nil {
		shown, err := sessionctx.ShownRequest(q.Method, q.Path, q.HTTP)
		if err != nil {
			return a, err
		}
		a.Details = append(a.Details, shown...)
	}
	if q.Via != "" && q.Via != verdict.ViaDirect {
		a.Details = append(a.Details, approval.Detail{Label: "by way of", Text: q.Via})
	}
	if len(l.Info.Command) > 0 {
		a.Details = append(a.Details, approval.Detail{Label: "command",
			Text: termsafe.Clip(strings.Join(l.Info.Command, " "), 1024)})
	}
	return a, court.Fits("what is to be looked at has", sessionctx.Size(a.Details), 2*hostexec.MaxShown)
}

// settled reports whether the policy has an answer to a question by now.
func (l *live) settled(i approval.Item) bool {
	if i.Kind == approval.MCP {
		return l.tools.Settled(i.Subject)
	}
	if i.Kind == approval.Secret || i.Kind == approval.File {
		_, answered := l.Remembered(config.DecisionKind(i.Kind), i.Subject)
		return answered
	}
	if i.Kind != approval.Network {
		return false
	}
	a, err := authority.ParseHostPort(i.Subject, 0)
	if err != nil {
		return true // the policy is asked again
	}
	return court.Judge(l.Snapshot.Load(), policy.Request{
		Action: policy.NetworkConnect, Authority: a, Session: l.Info.Name, Project: l.Info.Project, Agent: l.Info.Agent,
	}).Effect != policy.Ask
}
