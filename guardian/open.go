package guardian

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/instance"
	"cloister/guardian/livefiles"
	"cloister/guardian/mcpservice"
	"cloister/guardian/placeholders"
	"cloister/guardian/process"
	"cloister/guardian/requests"
	"cloister/guardian/sessionctx"
	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/policy"
	"cloister/policyset"
	"cloister/secret/inject"
	"cloister/session/registry"
	"cloister/session/stats"
)

// postSessions opens a session: policy, the record, the grant, in this order;
// then the connection becomes the session's link.
func (g *guardian) postSessions(w http.ResponseWriter, r *http.Request) (any, error) {
	began := time.Now()
	if r.Header.Get("Upgrade") != api.UpgradeProtocol {
		return nil, api.BadRequest("open session: Upgrade: %s is missing", api.UpgradeProtocol)
	}
	peer, ok := instance.PeerOf(r.Context())
	if !ok {
		return nil, api.BadRequest("open session: no peer credentials")
	}
	req, err := read[api.SessionRequest](r)
	if err != nil {
		return nil, err
	}
	if err := exactjson.Restore(&req); err != nil {
		return nil, api.BadRequest("open session: %v", err)
	}
	if err := requests.Session(req); err != nil {
		return nil, err
	}
	if !g.enterLink() {
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Code: api.CodeShuttingDown,
			Message: "open session: the guardian is on its way out"}
	}
	defer g.links.Done()
	g.refresh(r.Context())
	shim, err := process.Hold(peer.PID)
	if err != nil {
		return nil, err
	}
	var secrets placeholders.Placed
	if req.Network {
		if err := g.unseal(&req); err != nil {
			shim.Close()
			return nil, err
		}
		in, err := g.policies.Current().Scope(req.Projects)
		if err != nil {
			shim.Close()
			return nil, err
		}
		if !req.Beside {
			secrets = g.place(r.Context(), req.Project, in, req.Resume)
		}
	}
	l, grant, err := g.grant(req, shim, peer.PID, secrets)
	if err != nil {
		shim.Close()
		return nil, err
	}
	if l.conn, err = takeOver(w); err == nil {
		err = l.send(api.Frame{Type: api.FrameGrant, Grant: &grant})
	}
	if err != nil {
		l.cancel()
		if !g.passesOn(req) {
			l.lose(err)
		}
		shim.Close()
		close(l.gone)
		g.forget(l)
		return hijacked{}, nil
	}
	g.log.Info("session", "name", l.Info.Name, "id", l.Info.ID, "adopted", req.Resume != nil, "took", time.Since(began))
	close(l.ready)
	if err := l.reseal(); err != nil {
		l.ask(err.Error())
	}
	if l.adopted { // whose shim may have others
		l.served.Go(func() {
			g.reloading.RLock() // so that no older files come after a reload's
			defer g.reloading.RUnlock()
			l.refile(livefiles.Of(g.policies.Current().Input().Cedar))
		})
	}
	l.serve()
	return hijacked{}, nil
}

// enterLink counts a link in, unless the guardian is closing.
func (g *guardian) enterLink() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing || g.ctx.Err() != nil {
		return false
	}
	g.links.Add(1)
	return true
}

// broke records that a session which was entered did not begin.
func (g *guardian) broke(info api.SessionInfo, why error) {
	if _, err := g.sessions.Apply(info.ID, registry.Broke,
		func(i *api.SessionInfo) { i.Reason = why.Error() }); err != nil {
		g.log.Error("enter session", "session", info.Name, "error", err)
	}
}

func (g *guardian) enter(req api.SessionRequest, digest, mode string, pid int) (api.SessionInfo, error) {
	info := api.SessionInfo{
		Name:      req.Name,
		Project:   req.Project,
		Path:      cmp.Or(req.Path, req.Project),
		Branch:    req.Branch,
		Agent:     req.Agent,
		Terminal:  req.Terminal,
		Isolation: req.Isolation,
		Mode:      mode,
		Workspace: req.Workspace,
		Command:   req.Command,
		Network:   req.Network,
		Policy:    digest,
		Publish:   req.Publish,
		PID:       pid,
	}
	if req.Resume == nil {
		return g.sessions.Create(info)
	}
	info.ID, info.Name, info.CreatedAt = req.Resume.ID, req.Resume.Name, req.Resume.CreatedAt
	info.Handle, info.CommandPID = req.Resume.Handle, req.Resume.CommandPID
	return g.sessions.Adopt(info, req.Resume.Exec)
}

// recordStart writes session.start and each residue that a person accepted.
func (l *live) recordStart(req api.SessionRequest) error {
	digest := l.Digest()
	e := sessionctx.Frame(l.Info, digest)
	e.Kind, e.Action, e.Resource, e.Verdict, e.PID = audit.SessionStart, "start", req.Project, "allow", l.Info.PID
	e.Reason = "mode " + l.Info.Mode
	if req.Resume != nil {
		e.Action, e.Reason = "adopt", "its guardian was gone; mode "+l.Info.Mode
	}
	if !req.Network {
		e.Reason += "; no network"
	}
	for _, p := range req.Publish {
		e.Reason += fmt.Sprintf("; publishes port %d at 127.0.0.1:%d", p.Port, p.HostPort)
	}
	if req.Image != "" {
		e.Reason += "; image " + req.Image
	}
	if m := req.Memory; m != nil {
		e.Reason += "; goes on from the memory of session " + m.Session + " at checkpoint " + m.Checkpoint
	}
	if err := l.Records.Append(l.ctx, e); err != nil {
		return err
	}
	for _, name := range req.Accepted {
		e := sessionctx.Frame(l.Info, digest)
		e.Kind, e.Action, e.Resource, e.Verdict = audit.ResidueAccepted, "accept", name, "allow"
		e.Reason = "a person accepted by name that this is not enforced"
		if err := l.Records.Append(l.ctx, e); err != nil {
			return err
		}
	}
	if req.Resume != nil || req.Reports {
		return nil
	}
	return l.RecordClosed(l.ctx, req.Accepted)
}

// passesOn reports whether a session stays for the next guardian: another one began it, and
// that this one ends before it could take it over is not the session's end.
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
	} else {
		l.files.Began(livefiles.Of(loaded.Input().Cedar))
	}
	l.Snapshot.Store(snapshot)
	mine, err := g.trusted(l, req, secrets.Given)
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
		Secrets:      secrets.Given,
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
