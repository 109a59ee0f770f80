// Package question renders what waits for a person, for whoever puts it on a screen.
//
// The promise: every text of it can be shown as it is, and as nothing but text.
//
// It decides nothing and keeps nothing.
//
// Most readers want [Shown].
package question

import (
	"cloister/api"
	"cloister/approval"
	"cloister/internal/termsafe"
)

// Shown is a question with every text rendered: whoever gets it can put it on a
// screen as it is.
func Shown(i approval.Item) api.Approval {
	text := termsafe.Text
	a := api.Approval{
		ID: i.ID, Nonce: i.Nonce, Session: text(i.Session), Project: text(i.Project), Agent: text(i.Agent),
		Kind: string(i.Kind), Subject: text(i.Subject), Title: text(i.Title), Reason: text(i.Reason), Rule: text(i.Rule),
		Policy: i.Policy, Digest: i.Digest, Wildcard: text(i.Wildcard), Marks: i.Marks,
		State: string(i.Outcome), Waiting: max(0, i.Waiting), CreatedAt: i.Created, ExpiresAt: i.Expires,
		SettledAt: i.Settled,
		Details:   []api.ApprovalDetail{}, Scopes: []string{}, Covers: []api.ApprovalCover{},
	}
	for _, d := range i.Details {
		a.Details = append(a.Details, api.ApprovalDetail{Label: text(d.Label), Text: text(d.Text)})
	}
	scopes := i.Scopes
	if scopes == nil {
		scopes = approval.Scopes()
	}
	for _, s := range scopes {
		a.Scopes = append(a.Scopes, string(s))
		a.Covers = append(a.Covers, api.ApprovalCover{Scope: string(s), Text: text(i.Covers(s)), Digest: i.BoundTo(s)})
		if i.Wildcard != "" && s != approval.Once {
			wide := i
			wide.Wide = "every connection to every name that matches " + i.Wildcard +
				", also names not seen yet, with any request on it"
			a.Covers = append(a.Covers, api.ApprovalCover{Scope: string(s), Text: text(wide.Covers(s)),
				Pattern: text(i.Wildcard)})
		}
	}
	if i.Outcome == approval.Allowed || i.Outcome == approval.Denied {
		a.Scope, a.Pattern, a.By = string(i.Reply.Scope), text(i.Reply.Subject), text(i.Reply.By)
	}
	return a
}
