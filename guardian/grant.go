package guardian

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"cloister/api"
	"cloister/config"
	"cloister/guardian/mcpservice"
	"cloister/guardian/placeholders"
	"cloister/guardian/process"
	"cloister/guardian/sessionctx"
	"cloister/internal/passfd"
	"cloister/policy"
	"cloister/policyset"
	"cloister/secret/inject"
	"cloister/session/registry"
	"cloister/session/stats"
)

// passesOn tells of a session that another guardian began and the next one will
// have: that this one ends before it could take it is not the session's end.
func (g *guardian) passesOn(req api.SessionRequest) bool {
	return req.Resume != nil && g.ctx.Err() != nil
}

// grant enters the session and records it. After an error nothing of it is
// left but the record of a failed one.
func (g *guardian) grant(req api.SessionRequest, shim *process.Process, pid int,
	secrets placeholders.Placed) (*live, api.SessionGrant, error) {
	g.reloading.RLock()
	defer g.reloading.RUnlock()
	loaded := g.policies.Current()
	snapshot, err := g.policies.Session(loaded, req.Project, policyset.SessionRulesOf(req))
	if err != nil {
		return nil, api.SessionGrant{}, err
	}
	in, err := loaded.Scope(req.Projects)
	if err != nil {
		return nil, api.SessionGrant{}, err
	}
	if req.Resume == nil {
		if err := policyset.Holds(snapshot, req.Accepted, req.Closed); err != nil {
			return nil, api.SessionGrant{}, err
		}
	}
	info, err := g.enter(req, snapshot.Digest(), snapshot.Mode().String(), pid)
	if err != nil {
		return nil, api.SessionGrant{}, err
	}
	l := &live{
		Context: sessionctx.Context{Info: info, Tally: stats.New(api.SessionSummary{}), Records: g.records, Queue: g.queue},
		g:       g,
		rules:   policyset.SessionRulesOf(req),
		shim:    shim,
		hosts:   loaded.Config().Proxy.Hosts,
		foreign: append(slices.Clone(req.Writable), g.o.Dirs.Data),
		roots:   loaded.Roots(),
		started: info.CreatedAt,
		memory:  g.memory.Share(),
		ready:   make(chan struct{}),
		gone:    make(chan struct{}),
	}
	l.tools = mcpservice.New(&l.Context, g.pins, l.memory)
	l.host = g.host.Session(&l.Context, l, l.foreign)
	if info.Workspace == string(config.WorkspaceOverlay) {
		l.host.Keep = func(ctx context.Context, why, next string) error {
			return g.workspaces.Keep(ctx, info.Name, why, next)
		}
	}
	if req.Resume != nil {
		l.Tally = stats.New(req.Resume.Summary)
		l.adopted = true
	}
	l.Snapshot.Store(snapshot)
	mine, err := g.trusted(l, req, secrets.Told)
	if err != nil {
		g.broke(info, err)
		return nil, api.SessionGrant{}, err
	}
	// The command line in full, for the record; the list has it shortened.
	l.Info.Command = req.Command
	l.Scope.Store(in)
	if len(secrets.Held) > 0 {
		l.secrets.Store(inject.New(secrets.Held, policyset.ByName(in.Bindings), l, l.memory, &g.values, secrets.Foreign...))
	}
	l.acked.Store(true)
	l.ctx, l.cancel = context.WithCancel(g.ctx)
	if err := l.recordStart(req); err != nil {
		l.cancel()
		if !g.passesOn(req) {
			g.broke(info, err)
		}
		return nil, api.SessionGrant{}, api.Unrecorded("open session", err)
	}
	g.mu.Lock()
	g.live[info.ID] = l
	g.mu.Unlock()
	g.bus.Publish(api.EventSession, info)
	if req.Resume != nil && req.Resume.Handle != "" {
		if _, err := g.sessions.Apply(info.ID, registry.Started, nil); err != nil {
			g.log.Error("adopt session", "session", info.Name, "error", err)
		}
	}
	return l, api.SessionGrant{
		ID:           info.ID,
		Name:         info.Name,
		PolicyDigest: snapshot.Digest(),
		Mode:         info.Mode,
		CreatedAt:    info.CreatedAt,
		Authority:    mine.authority,
		KnownHosts:   mine.known,
		Sealed:       mine.sealed,
		Postgres:     snapshot.Logins(policy.Postgres),
		Notices:      slices.Concat(g.grantNotices(loaded, l), secrets.Notices, mine.notices),
		Secrets:      secrets.Told,
		Env:          secrets.Env,
		Logins:       secrets.Logins,
		LoginFiles:   secrets.Files,
	}, nil
}

// grantNotices is what a person who starts a session should see.
func (g *guardian) grantNotices(loaded *policyset.Set, l *live) []string {
	var out []string
	if why := g.policies.Failure(); why != "" {
		out = append(out, "the configuration on disk is not in force, the last good one is: "+why)
	}
	out = append(out, loaded.Notices()...)
	if s := l.Snapshot.Load(); s != loaded.Snapshot() {
		for _, text := range policyset.Remarks(s) {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// takeOver turns the HTTP connection into a link.
func takeOver(w http.ResponseWriter) (*passfd.Conn, error) {
	raw, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	conn, ok := raw.(*net.UnixConn)
	if !ok || buffered.Reader.Buffered() > 0 {
		// Descriptors that came with early bytes would be lost already.
		_ = raw.Close()
		return nil, errors.New("open session: the caller did not wait for the grant")
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + api.UpgradeProtocol + "\r\n\r\n"
	if _, err := conn.Write([]byte(head)); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("open session: %w", err)
	}
	return passfd.New(conn, nil, api.MaxFrame), nil
}
