package api

import (
	"encoding/json"
	"time"
)

// Approval is one question that waits for a person, or waited. Every text in it
// is rendered already (internal/termsafe): it can be put on a screen as it is,
// and as nothing but text.
type Approval struct {
	ID      string `json:"id"`
	Session string `json:"session"`
	Project string `json:"project"`
	Agent   string `json:"agent"`
	Kind    string `json:"kind"`    // network
	Subject string `json:"subject"` // what it is about, such as HOST:PORT
	Title   string `json:"title"`   // the question in one line
	// Details are what a person looks at before an answer.
	Details []ApprovalDetail `json:"details"`
	Reason  string           `json:"reason"` // why it is asked
	Rule    string           `json:"rule,omitempty"`
	Policy  string           `json:"policy_digest"`
	// Nonce is this question's alone. An answer that repeats it is for no other.
	Nonce string `json:"nonce"`
	// Digest is what an allow for once is bound to, where the subject alone does not say.
	Digest string `json:"digest,omitempty"`
	// Covers says of each scope what an answer will be for.
	Covers []ApprovalCover `json:"covers"`
	// Wildcard is a wider subject that an answer may name as pattern.
	Wildcard string   `json:"wildcard,omitempty"`
	Scopes   []string `json:"scopes"` // those an answer may have
	// Marks warns of what could fool an eye; an allow then needs confirm.
	Marks     string    `json:"marks,omitempty"`
	State     string    `json:"state"`   // pending|allowed|denied|expired|withdrawn|superseded
	Waiting   int       `json:"waiting"` // how many stand behind the question, the one shown included
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	SettledAt time.Time `json:"settled_at,omitzero"`
	// Of an answered one.
	Scope   string `json:"scope,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	By      string `json:"by,omitempty"`
}

// ApprovalCover is what an answer of one scope will be for.
type ApprovalCover struct {
	Scope string `json:"scope"`
	Text  string `json:"text"`
	// Digest is what exactly it is bound to; absent where it covers more than one.
	Digest string `json:"digest,omitempty"`
	// Pattern is the wildcard that Text is about; absent for what was asked.
	Pattern string `json:"pattern,omitempty"`
}

// ApprovalDetail is one labelled line.
type ApprovalDetail struct {
	Label string `json:"label"`
	Text  string `json:"text"`
}

// ApprovalReply is the body of POST /v1/approvals/{id}/approve and …/deny.
type ApprovalReply struct {
	Scope string `json:"scope,omitempty"` // once|session|project|global; once unless said
	// Pattern widens the answer to Approval.Wildcard or another *.NAME above it.
	Pattern string `json:"pattern,omitempty"`
	// Confirm says that the person saw what Marks warns of, or wants a wildcard
	// remembered.
	Confirm bool `json:"confirm,omitempty"`
	// Nonce is that of the question which the person saw; an answer to another is
	// refused. "" where the ID says enough.
	Nonce string `json:"nonce,omitempty"`
	Via   string `json:"via,omitempty"` // cli|tui|window: for the record
}

// Decision is one remembered answer: a line of a file below decisions/.
type Decision struct {
	ID      string    `json:"id"`
	Answer  string    `json:"answer"` // allow|deny
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"`
	Scope   string    `json:"scope"`             // session|project|global
	Project string    `json:"project,omitempty"` // of project and session
	Session string    `json:"session,omitempty"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Why     string    `json:"why,omitempty"`
	Shown   string    `json:"shown,omitempty"`
	Place   string    `json:"place,omitempty"` // file:line
}

// Types of an Event. A reader skips those that it does not know.
const (
	// EventHello opens every stream. Its Data is a Hello.
	EventHello = "hello"
	// EventReset says that events were missed: fetch the lists again.
	EventReset = "reset"
	// EventApproval tells of a question that appeared or ended: an Approval.
	EventApproval = "approval"
	// EventSession tells of a session that began, ran or ended: a SessionInfo.
	EventSession = "session"
	// EventPolicy says that the policy changed: a PolicyDigest.
	EventPolicy = "policy"
	// EventDecisions says that the remembered answers changed; it has no Data.
	EventDecisions = "decisions"
	// EventCommand tells of a host command that began, wrote or ended: a HostCommand
	// without its output.
	EventCommand = "hostexec"
	// EventAudit is a record, for readers that ask for records: a Record.
	EventAudit = "audit"
)

// Hello is the Data of the first event of a stream.
type Hello struct {
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// Event is one message of GET /v1/events: `id:`, `event:` and `data:` of
// server-sent events. A reader that was cut off sends the last ID that it saw as
// Last-Event-ID and gets what it missed, or one EventReset.
type Event struct {
	ID   string
	Type string
	Data json.RawMessage
}
