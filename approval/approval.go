// Package approval holds what waits for a person's answer.
//
// The promise: nothing that is asked goes on without an answer. An ask that
// no one can see, that is one too many, whose time is over, whose asker is gone
// or that cannot be recorded is refused. Equal asks of one session are one
// question with one answer; the first answer counts; each answer is used by
// those who waited for it, and by no one after them.
//
// It does not decide what must be asked (policy does), does not remember
// answers (the desk does), does not write the record (it calls who does), and
// knows no wire and no screen.
//
// Most readers want [New], [Queue.Ask] and [Queue.Answer].
package approval

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is what is asked about.
type Kind string

// The kinds there are.
const (
	Network  Kind = "network"  // a destination, HOST:PORT
	Hostexec Kind = "hostexec" // a command on the host
	Request  Kind = "request"  // one HTTP request, METHOD HOST:PORT/PATH
	MCP      Kind = "mcp"      // a tool of an MCP server, SERVER/TOOL
	Secret   Kind = "secret"   // one secret to one destination, NAME METHOD HOST:PORT
	File     Kind = "file"     // a file that is opened, read PATH or write PATH
)

// Scope is how long an answer holds.
type Scope string

// The scopes, from the narrowest to the widest.
const (
	Once    Scope = "once"    // for the one that is shown
	Session Scope = "session" // until this session ends
	Project Scope = "project" // for every session of this project
	Global  Scope = "global"  // for every session
)

// Scopes lists them, narrowest first.
func Scopes() []Scope { return []Scope{Once, Session, Project, Global} }

// Ask is one question.
type Ask struct {
	SessionID, Session, Project, Agent string

	Kind Kind
	// Subject is what is asked about. Equal subjects of one kind and session
	// are one question.
	Subject string
	// Title is the question in one line; Details are what a person looks at
	// before an answer. Both may hold foreign text: whatever shows it renders it.
	Title   string
	Details []Detail
	Reason  string // why it is asked
	Rule    string // the rule that asks, with its place
	Policy  string // digest of the policy that asks
	Digest  string // of what an allow is bound to; "" where the subject is all
	// Grant is the digest that a remembered answer is bound to, where that is not
	// the subject.
	Grant string
	// Wide is in words everything that a remembered answer is for.
	Wide string
	// Shared says that an answer releases nothing by itself, so that one is for all
	// who wait: each of them is judged again by what it changed.
	Shared bool
	// Wildcard is the next wider subject that an answer may be for; "" for none.
	Wildcard string
	// Scopes are those that an answer may have; nil for every one.
	Scopes []Scope
	// Marks says what in the texts could fool an eye; "" for nothing.
	Marks string
}

// Detail is one labelled line of what a person looks at.
type Detail struct{ Label, Text string }

// Reply is what a person says.
type Reply struct {
	Allow bool
	Scope Scope
	// Subject is what the answer is for where that is wider than what was
	// asked; "" otherwise.
	Subject string
	By      string // who, and where
	// Nonce is that of the question which was looked at; "" where the ID says enough.
	Nonce string
}

// Outcome is how a question ended.
type Outcome string

// The outcomes. Only Allowed lets anything happen.
const (
	Pending    Outcome = "pending"
	Allowed    Outcome = "allowed"
	Denied     Outcome = "denied"
	Expired    Outcome = "expired"    // no person answered in time
	Withdrawn  Outcome = "withdrawn"  // no program waits for it any more
	Superseded Outcome = "superseded" // the policy changed: ask policy again
	Unwatched  Outcome = "unwatched"  // no person could see it
	Overflow   Outcome = "overflow"   // the session asks too much
	Unrecorded Outcome = "unrecorded" // the record could not be written
)

// Item is a question with what became of it.
type Item struct {
	Ask

	ID      string
	Nonce   string // of this question alone; IDs are short
	Created time.Time
	Expires time.Time
	Settled time.Time // zero while pending
	Outcome Outcome
	Reply   Reply // of Allowed and Denied
	Waiting int   // how many wait for the answer
}

// Answer is what the caller receives.
type Answer struct {
	Outcome Outcome
	ID      string // "" where there was no question
	Reply   Reply
	Err     error // of Unrecorded
}

// Allowed reports whether the one who asked may go on.
func (a Answer) Allowed() bool { return a.Outcome == Allowed }

// Covers says in words what an answer of a scope is for.
func (i Item) Covers(s Scope) string {
	wide := i.Wide
	if wide == "" {
		wide = "everything of the kind " + string(i.Kind) + " about " + i.Subject
	}
	switch s {
	case Session:
		return wide + ", by this session until it ends"
	case Project:
		return wide + ", by every cloister of this project, now and later"
	case Global:
		return wide + ", by every cloister of every project, now and later"
	case Once:
	}
	switch behind := i.Waiting - 1; {
	case i.Shared:
		return "what is shown here, and nothing else"
	case behind > 0:
		return fmt.Sprintf("exactly one: what is shown here; %d more wait behind it, each with a question of its own", behind)
	}
	return "exactly one: what is shown here"
}

// BoundTo is the digest that an answer of a scope is bound to: "" where the answer covers more than one
// digest names.
func (i Item) BoundTo(s Scope) string {
	if s == Once {
		return i.Digest
	}
	return i.Grant
}

// ErrNotFound says that no question has that ID.
var ErrNotFound = errors.New("no such approval")

// Over is the error for an answer that came second.
type Over struct{ Item Item }

func (o *Over) Error() string {
	switch i := o.Item; i.Outcome {
	case Allowed, Denied:
		return fmt.Sprintf("approval %s: %s already, by %s", i.ID, i.Outcome, i.Reply.By)
	case Pending:
		return fmt.Sprintf("approval %s: somebody else is answering it", i.ID)
	default:
		return fmt.Sprintf("approval %s: it is over: %s; an answer with --scope project is for what comes later",
			i.ID, i.Outcome)
	}
}

// Options of New. Opened and Settle are required.
type Options struct {
	// Timeout is how long a question waits; it may change between questions.
	Timeout func() time.Duration
	// Opened records that the question is asked; its error refuses it.
	Opened func(ctx context.Context, i Item) error
	// Decide records an answer and makes it hold, before anyone who waits goes
	// on; its error leaves the question as it was.
	Decide func(ctx context.Context, i Item, r Reply) error
	// Ended records a question that ended without an answer.
	Ended func(i Item)
	// Changed is notified of every question that appears, and again when it ends.
	Changed func(i Item)

	// Reached reports whether a person learns of questions who watches nothing; nil for no.
	Reached func() bool

	// Awake is the clock that ends questions for good: it runs while the machine
	// sleeps, and no one sets it. CLOCK_BOOTTIME unless said.
	Awake func() time.Duration

	// PerSession bounds what waits for one session, Total what waits at all;
	// 64 and 10,000 unless said.
	PerSession, Total int
	// Rate bounds the new questions of one session in a minute; 60 unless said.
	Rate int
	// History bounds what is kept of questions that ended; 256 unless said.
	History int
}
