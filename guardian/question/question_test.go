package question_test

import (
	"strings"
	"testing"

	"cloister/approval"
	"cloister/guardian/question"
)

// TestShown: no text of a question, labels among them (an MCP server names its tools),
// holds what steers a terminal or an eye.
func TestShown(t *testing.T) {
	const foreign = "a\x1b[2J\u202eb\nc"
	a := question.Shown(approval.Item{Ask: approval.Ask{
		Session: foreign, Project: foreign, Agent: foreign, Subject: foreign, Title: foreign, Reason: foreign, Rule: foreign,
		Wildcard: foreign, Wide: foreign, Details: []approval.Detail{{Label: foreign, Text: foreign}},
	}})
	texts := []string{a.Session, a.Project, a.Agent, a.Subject, a.Title, a.Reason, a.Rule, a.Wildcard, a.Details[0].Label, a.Details[0].Text}
	for _, c := range a.Covers {
		texts = append(texts, c.Text)
	}
	for i, s := range texts {
		if strings.ContainsAny(s, "\x1b\u202e") || !strings.Contains(s, "a") {
			t.Errorf("text %d is %q", i, s)
		}
	}
}
