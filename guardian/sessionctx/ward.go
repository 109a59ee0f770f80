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
	"sync/atomic"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/audit/recorder"
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
	w.Records.Note(ctx, e)
}

// Nonce makes a question that no other shares its answer with.
func Nonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
