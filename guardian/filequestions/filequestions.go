// Package filequestions asks a person about a file that a session opens and that is held closed.
//
// Promise: each opening goes through the court: what the policy of now says comes first, and a
// statement that is not in force any more allows nothing. What a person allows is on record before
// it is handed in.
//
// It opens no file: the shim has looked at it, and hands in what was shown.
//
// Most readers want [Serve].
package filequestions

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/policy/fileverdict"
)

// maxPath is the longest path that there is (PATH_MAX).
const maxPath = 4096

// Memory has the answers of a person that hold for a session.
type Memory interface {
	Remembered(kind config.DecisionKind, subject string) (config.Decision, bool)
}

// Serve answers the shim, which waits. It ends with ctx, the session's, too.
func Serve(ctx context.Context, r *http.Request, s *sessionctx.Context, m Memory) (any, error) {
	var q api.FileQuestion
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, api.BadRequest("ask about a file: %v", err)
	}
	waits, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return Answer(waits, s, m, q)
}

// Answer reports whether a file is handed in. It may wait for a person as long as ctx lives.
func Answer(ctx context.Context, s *sessionctx.Context, m Memory, q api.FileQuestion) (api.FileAnswer, error) {
	if len(q.Path) == 0 || len(q.Path) > maxPath || len(q.Source) > maxPath {
		return api.FileAnswer{}, api.BadRequest("ask about a file: a path of %d bytes", max(len(q.Path), len(q.Source)))
	}
	subject := subjectOf(q)
	r := court.Decide(ctx, s, court.Case{
		Policy: func() court.Ruling {
			snapshot := s.Snapshot.Load()
			return court.Ruling{Verdict: judge(snapshot.Statements(), s.Info.Project, q), Digest: snapshot.Digest()}
		},
		Remembered: func(v policy.Verdict) (policy.Verdict, bool) {
			d, ok := m.Remembered(config.DecisionFile, subject)
			if !ok || v.Effect != policy.Ask {
				return v, false
			}
			return remembered(d), true
		},
		Question: func(policy.Verdict) (approval.Ask, error) { return question(q, subject), nil },
		Event:    func(r court.Ruling) (audit.Event, bool) { return event(s, q, r), true },
		Count: func(r court.Ruling) {
			if r.Allowed() {
				s.Tally.Allowed("")
			} else {
				s.Tally.RefusedCommand(r.Verdict)
			}
		},
	})
	return api.FileAnswer{Allow: r.Allowed(), Reason: r.FullReason()}, nil
}

func verb(q api.FileQuestion) string {
	switch {
	case q.Execute:
		return "execute"
	case q.Write:
		return "write"
	}
	return "read"
}

// subjectOf is what an answer is for: the file of the host, since another session can show another one at its path.
// An answer about a program is for its content.
func subjectOf(q api.FileQuestion) string {
	switch {
	case q.Execute && q.Source == "":
		return fmt.Sprintf("%s %q with %s", verb(q), q.Path, q.Digest)
	case q.Execute:
		return fmt.Sprintf("%s %q of %q with %s", verb(q), q.Path, q.Source, q.Digest)
	case q.Source == "":
		return verb(q) + " " + q.Path
	}
	return verb(q) + " " + strconv.Quote(q.Path) + " of " + strconv.Quote(q.Source) // no path begins with a quote
}

// judge is what the statements of now say. A file whose path is not the one that its statement names, as where a
// link leads to it, is judged by the statement that closed it.
func judge(list []policy.Statement, project string, q api.FileQuestion) policy.Verdict {
	use, _ := fileverdict.Parse(verb(q))
	o := fileverdict.Of(fileverdict.In(list, project), q.Path, use)
	v := policy.Verdict{Effect: o.Effect, Rule: o.Rule, Origin: o.Origin, Reason: o.Reason}
	if o.Effect != policy.Allow {
		return v
	}
	i := slices.IndexFunc(list, func(st policy.Statement) bool { return st.Rule == q.Rule && st.Asks() })
	if i < 0 {
		return policy.Verdict{Rule: q.Rule, Reason: "the statement that closes it in this session is not in force " +
			"any more: start it anew"}
	}
	return policy.Verdict{Effect: policy.Ask, Rule: q.Rule, Origin: list[i].Origin, Reason: "a person is asked about it"}
}

func remembered(d config.Decision) policy.Verdict {
	v := policy.Verdict{Rule: "approval " + d.ID, Reason: "a person denied this: approval " + d.ID}
	if d.Answer == config.AnsweredAllow {
		v.Effect, v.Reason = policy.Allow, "a person allowed this: approval "+d.ID
	}
	return v
}

// question is what a person looks at.
func question(q api.FileQuestion, subject string) approval.Ask {
	a := approval.Ask{
		Kind: approval.File, Subject: subject, Title: verb(q) + " the file " + q.Path, Digest: q.Digest,
		Marks: termsafe.Marks(q.Path + q.Source),
		Wide:  "every opening of " + q.Path + " to " + verb(q) + ", whatever it holds by then",
		Details: []approval.Detail{
			{Label: "file", Text: termsafe.Quote(q.Path)},
			{Label: "it has", Text: fmt.Sprintf("%d bytes, written %s", q.Size, q.Time.UTC().Format(time.DateTime+" UTC"))},
			{Label: "program", Text: fmt.Sprintf("%s (pid %d), as it calls itself", termsafe.Quote(q.Program), q.PID)},
		},
	}
	if q.Source != "" {
		a.Wide = "every opening of " + q.Path + " to " + verb(q) +
			" where it is " + q.Source + " of the host, whatever it holds by then"
		a.Details = append(a.Details, approval.Detail{Label: "on the host", Text: termsafe.Quote(q.Source)})
	}
	handed := "a copy of it as it is now, which cannot be changed"
	if q.Digest != "" {
		handed += ": " + q.Digest
	}
	if q.Write {
		handed = "the file itself, to be read and written for as long as it is kept open"
	}
	if q.Execute {
		return program(a, q)
	}
	a.Details = append(a.Details, approval.Detail{Label: "handed in is", Text: handed})
	return a
}

// program is what is different where a program is asked about: what was allowed lies there until the session ends.
func program(a approval.Ask, q api.FileQuestion) approval.Ask {
	a.Title = "execute the program " + q.Path
	a.Wide = "every execution of " + q.Path + " with exactly this content"
	a.Scopes = []approval.Scope{approval.Session, approval.Project, approval.Global}
	if q.RunBy != "" {
		a.Details = append(a.Details, approval.Detail{Label: "it is run by", Text: termsafe.Quote(q.RunBy)})
	}
	a.Details = append(a.Details, approval.Detail{Label: "shown inside is",
		Text: "this content, to all that runs inside, until the session ends, without set-id bits: " + q.Digest})
	return a
}

func event(s *sessionctx.Context, q api.FileQuestion, r court.Ruling) audit.Event {
	e := sessionctx.Frame(s.Info, r.Digest)
	e.Kind, e.Action, e.Resource = audit.FileOpen, "open", q.Path
	switch {
	case q.Execute:
		e.Kind, e.Action = audit.Exec, "allow"
	case q.Write:
		e.Action = "write"
	}
	if q.Execute && !r.Allowed() {
		e.Action = "execute"
	}
	if !r.Allowed() {
		e.Kind = audit.FileDenied
	}
	e.Verdict, e.Rule, e.PID, e.Digest = r.Effect.String(), r.RuleAt(), q.PID, q.Digest
	e.Reason = fmt.Sprintf("%s; tried by %q, as it calls itself", r.FullReason(), termsafe.Clip(q.Program, 64))
	if q.Source != "" {
		e.Reason += fmt.Sprintf("; on the host %q", q.Source)
	}
	return e
}
