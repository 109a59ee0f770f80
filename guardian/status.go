package guardian

import (
	"os"

	"cloister/api"
)

// notice keeps what a person should learn from `guardian status`.
func (g *guardian) notice(text string) {
	g.log.Warn("notice", "text", text)
	g.mu.Lock()
	defer g.mu.Unlock()
	// Bounded: notices are few, by the places that make them.
	if len(g.notices) < 32 {
		g.notices = append(g.notices, text)
	}
}

// status is the answer to GET /v1/status.
func (g *guardian) status() api.Status {
	loaded := g.policies.Current()
	g.mu.Lock()
	notices := append([]string(nil), g.notices...)
	g.mu.Unlock()
	s := api.Status{
		Running:      true,
		PID:          os.Getpid(),
		Version:      g.o.Version,
		Socket:       g.socket,
		UI:           g.windowURL(),
		Sessions:     len(g.sessions.List(false)),
		PolicyDigest: loaded.Snapshot().Digest(),
		Watchers:     g.queue.Watchers(),
		StartedAt:    g.started,
		PolicyError:  g.policies.Failure(),
		Notices:      append(notices, loaded.Notices()...),
	}
	if err := g.records.Err(); err != nil {
		s.AuditError = err.Error()
	}
	if err := g.sessions.Err(); err != nil {
		s.Notices = append(s.Notices, "the list of sessions cannot be saved: "+err.Error())
	}
	return s
}
