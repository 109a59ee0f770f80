// Package sessionctx is a session in the guardian's care, as everything that judges for it
// shares it.
//
// Promise: whoever judges looks at the policy of now, records before it lets
// something happen, and asks a person in the session's name.
//
// It decides nothing by itself, and knows no connection, no command and no server.
//
// Most readers want [Ward].
package sessionctx

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync/atomic"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/policyset"
	"cloister/session/stats"
)

// A Ward is one of them.
type Ward struct {
	Info     api.SessionInfo // as granted; the registry has what changes
	Snapshot atomic.Pointer[policy.Snapshot]
	Scope    atomic.Pointer[policyset.Scope] // never nil
	Tally    *stats.Tally
	Records  *recorder.Recorder
	Queue    *approval.Queue
	Log      *slog.Logger
}

// Digest is that of the policy of now.
func (w *Ward) Digest() string { return w.Snapshot.Load().Digest() }

// Event is the frame of every event about the session, under the policy of now.
func (w *Ward) Event() audit.Event { return Frame(w.Info, w.Digest()) }

// Frame is the frame of every event about a session, under the policy of a digest.
func Frame(info api.SessionInfo, digest string) audit.Event {
	return audit.Event{
		Session:   info.Name,
		SessionID: info.ID,
		Project:   info.Project,
		Agent:     info.Agent,
		Isolation: info.Isolation,
		Policy:    digest,
	}
}

// Record is for what has happened already and cannot be stopped any more.
func (w *Ward) Record(ctx context.Context, e audit.Event) {
	if err := w.Records.Append(ctx, e); err != nil {
		w.Log.Error("an event could not be recorded", "session", w.Info.Name, "kind", e.Kind, "error", err)
	}
}

// InName puts a question in the session's name, with further labelled lines at its end.
func (w *Ward) InName(a *approval.Ask, pairs ...string) *approval.Ask {
	a.SessionID, a.Session, a.Project, a.Agent = w.Info.ID, w.Info.Name, w.Info.Project, w.Info.Agent
	pairs = append([]string{"session", w.Info.Name, "project", w.Info.Project}, pairs...)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			a.Details = append(a.Details, approval.Detail{Label: pairs[i], Text: termsafe.Clip(pairs[i+1], 1024)})
		}
	}
	return a
}

// Nobody is why an ask is refused at once: nobody can be asked.
const Nobody = "would have asked, but nobody is watching"

// End tells how a question ended that nobody answered.
func End(o approval.Outcome) string {
	switch o {
	case approval.Expired:
		return "nobody answered in time"
	case approval.Withdrawn:
		return "nobody waits for it any more"
	case approval.Superseded:
		return "the policy changed and is asked again"
	case approval.Unwatched:
		return Nobody
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

// Nonce makes a question that no other shares its answer with.
func Nonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return hex.EncodeToString(b[:])
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
