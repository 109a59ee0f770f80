// Package sessionctx is the context of one session: what all services of the guardian that
// work for it share.
//
// Promise: the policy is that of now, and every event has the session's frame.
//
// It decides nothing (package court does), and knows no connection, no command and no
// server.
//
// Most readers want [Context].
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

// A Context is that of one session.
type Context struct {
	Info     api.SessionInfo // as granted; the registry has what changes
	Snapshot atomic.Pointer[policy.Snapshot]
	Scope    atomic.Pointer[policyset.Scope] // never nil
	Tally    *stats.Tally
	Records  *recorder.Recorder
	Queue    *approval.Queue
}

// Digest is that of the policy of now.
func (c *Context) Digest() string { return c.Snapshot.Load().Digest() }

// Event is the frame of every event about the session, under the policy of now.
func (c *Context) Event() audit.Event { return Frame(c.Info, c.Digest()) }

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

// Record writes what has happened already and cannot be stopped any more.
func (c *Context) Record(ctx context.Context, e audit.Event) {
	c.Records.Note(ctx, e)
}

// Nonce makes a question that no other shares its answer with.
func Nonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
