package guardian

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cloister/api"
	"cloister/api/openapi"
	"cloister/guardian/acts"
	"cloister/guardian/apierror"
	"cloister/guardian/devices"
	"cloister/guardian/instance"
	"cloister/guardian/requests"
	"cloister/guardian/sessionctx"
	"cloister/session/registry"
	"cloister/ui/web"
)

// Caller is who calls: by how the connection came in, never by what it says.
type Caller uint8

// The callers there are.
const (
	// None may call nothing: the zero value.
	None Caller = iota
	// Owner is the guardian's own user on the unix socket, by peer
	// credentials.
	Owner
	// Window is a browser that the owner let in (ui/web). The owner may do
	// all that it may.
	Window
)

// may reports whether a caller may do what a row gives to who.
func (c Caller) may(who Caller) bool {
	return c != None && (c == who || c == Owner && who == Window)
}

// Route is one row of the table of everything that can be asked.
type Route struct {
	Path  string // as http.ServeMux patterns spell it
	Read  Caller // who may GET; None when there is nothing to read
	Write Caller // who may POST; None when nothing changes
	What  string // for documentation

	read, write handler
}

type handler func(*guardian, http.ResponseWriter, *http.Request) (any, error)

// Routes is the table: every route, who may read it, who may write it.
func Routes() []Route {
	return []Route{
		{api.PathStatus, Window, None, "how the guardian is", (*guardian).getStatus, nil},
		{api.PathStop, None, Owner, "end the guardian; sessions live on without egress", nil, (*guardian).postStop},
		{api.PathReload, None, Window, "read the configuration again", nil, (*guardian).postReload},
		{api.PathWindow, None, Owner, "a link that lets one browser in", nil, (*guardian).postWindow},
		{api.PathDevices, Owner, Owner, "the paired phones; a code that pairs one", ofDevices((*devices.Service).List),
			ofDevices((*devices.Service).Pair)},
		{api.PathDevices + "/pairing", Owner, Owner, "how the pairing stands; agree to it, or not",
			ofDevices((*devices.Service).Pairing), ofDevices((*devices.Service).Finish)},
		{api.PathDevices + "/{name}/remove", None, Owner, "forget a phone", nil, ofDevices((*devices.Service).Unpair)},
		{api.PathSessions, Window, Owner, "list sessions (?all=1); open one by upgrade",
			(*guardian).getSessions, (*guardian).postSessions},
		{api.PathSessions + "/{name}", Owner, None, "one session, with what exec needs", (*guardian).getSession, nil},
		{api.PathSessions + "/{name}/stop", None, Window, "end one session", nil, (*guardian).postSessionStop},
		{api.PathSessions + "/{name}/narrow", None, Owner,
			"replace what is taken away from a session's policy while it lives", nil, (*guardian).postNarrow},
		{api.PathSessions + "/{name}/tool", None, Owner, "decide about a call of Cloister's own MCP server",
			nil, (*guardian).postTool},
		{api.PathSessions + "/{name}/editor", None, Owner,
			"record what an agent wanted of the editor that started it",
			nil, ofActs((*acts.Service).Editor)},
		{api.PathSessions + "/{name}/files", None, Owner, "what a guest did with files",
			nil, ofActs((*acts.Service).Files)},
		{api.PathSessions + "/{name}/file", None, Owner,
			"ask a person about a file that is held closed, and wait", nil, (*guardian).postFile},
		{api.PathPolicy, Window, None, "the policy in force (?session=NAME)", (*guardian).getPolicy, nil},
		{api.PathPolicyDigest, Window, None, "its digest", (*guardian).getPolicyDigest, nil},
		{api.PathPolicyCheck, None, Window, "would the files on disk load?", nil, (*guardian).postPolicyCheck},
		{api.PathApprovals, Window, None, "what waits for a person (?all=1: and what ended)",
			(*guardian).getApprovals, nil},
		{api.PathApprovals + "/{id}", Window, None, "one question", (*guardian).getApproval, nil},
		{api.PathApprovals + "/{id}/approve", None, Window, "answer it with allow", nil, (*guardian).postApprove},
		{api.PathApprovals + "/{id}/deny", None, Window, "answer it with deny", nil, (*guardian).postDeny},
		{api.PathDecisions, Window, None, "the remembered answers", (*guardian).getDecisions, nil},
		{api.PathDecisions + "/{id}/undo", None, Window, "take one back", nil, (*guardian).postUndo},
		{api.PathEvents, Window, None,
			"what happens, as server-sent events (?audit=1: also what is recorded); " +
				"who reads them watches (?session=NAME: that one alone)",
			(*guardian).getEvents, nil},
		{api.PathSecrets, Window, None, "the secrets, without their values", (*guardian).getSecrets, nil},
		{api.PathSecrets + "/{name}", Owner, Owner, "one of them; set it", (*guardian).getSecret, (*guardian).postSecret},
		{api.PathSecrets + "/{name}/remove", None, Owner, "forget it", nil, (*guardian).postSecretRemove},
		{api.PathLogins + "/{name}", None, Owner, "begin a login to a service", nil, (*guardian).postLogin},
		{api.PathLogins + "/{name}/finish", None, Owner, "wait until the person has agreed, and keep it",
			nil, (*guardian).postLoginFinish},
		{api.PathPolicyExplain, None, Window, "judge a destination without connecting", nil, (*guardian).postPolicyExplain},
		{api.PathMCP, Window, Window, "the declared MCP servers; also with those of a project",
			(*guardian).getMCP, (*guardian).postMCPList},
		{api.PathMCP + "/{name}", Window, Window, "one of them, with its tools as they were listed",
			(*guardian).getMCPServer, (*guardian).postMCPServer},
		{api.PathMCP + "/{name}/pin", None, Window, "take what it says of its tools now, or forget that",
			nil, (*guardian).postMCPPin},
		{api.PathAudit, Window, None, "what was recorded, newest first", (*guardian).getAudit, nil},
		{api.PathAudit + "/verify", Window, None, "prove the record", (*guardian).getAuditVerify, nil},
		{api.PathAudit + "/export", Window, None, "the record itself, as JSON lines", (*guardian).getAuditExport, nil},
		{api.PathPolicyFiles, Window, Window, "the files of the configuration; save one that loads",
			(*guardian).getPolicyFiles, (*guardian).postPolicyFile},
		{api.PathPolicyFiles + "/check", None, Window, "would this text load in place of a file?",
			nil, (*guardian).postPolicyDraft},
		{api.PathPolicyDraft, None, Window, "a rule for what was seen, written into config.yaml and not saved",
			nil, (*guardian).postRuleDraft},
		{api.PathPolicyWords, Window, None, "what an editor completes with", (*guardian).getPolicyWords, nil},
		{api.PathCommands, Window, None, "host commands since the guardian began", (*guardian).getCommands, nil},
		{api.PathCommands + "/{id}", Window, None, "one of them, with the end of its output", (*guardian).getCommand, nil},
		{api.PathFiles + "/{seq}", Window, None, "a changed auto-run file, by its record's number",
			(*guardian).getFile, nil},
		{api.PathReviews, Window, Owner, "changed files that wait for a person; keep, revert or trust one",
			(*guardian).getReviews, (*guardian).postReview},
		{api.PathDoctor, Window, None, "what cloister doctor --json says", (*guardian).getDoctor, nil},
		{api.PathProjects, Window, None, "the projects that had a cloister", (*guardian).getProjects, nil},
		{api.PathProjects + "/start", None, Window, "start a cloister in one of them", nil, (*guardian).postStart},
		{api.PathState, None, Owner, "record a change of a kept workspace, before it is made", nil, (*guardian).postState},
		{api.PathMemoryKey, None, Owner, "the key of a kept memory that is encrypted, for its seal",
			nil, (*guardian).postMemoryKey},
		{api.PathWorkspaces, Window, None, "the kept workspaces with their checkpoints", (*guardian).getWorkspaces, nil},
		{api.PathWorkspaces + "/{name}/diff", Window, None,
			"what one changed (?at=CHECKPOINT&since=CHECKPOINT&path=PATH: with its text; lines=1: with counts)",
			(*guardian).getWorkspaceDiff, nil},
		{api.PathWorkspaces + "/{name}/{verb}", None, Window,
			"checkpoint, restore, fork, compare, apply, discard or undo",
			nil, (*guardian).postWorkspace},
		{api.PathTenant, None, Owner, "record what cloister serve does for a tenant, before it is done",
			nil, ofActs((*acts.Service).Tenant)},
		{api.PathSessions + "/{name}/terminal", Window, None, "a session's terminal, as a WebSocket",
			(*guardian).getTerminal, nil},
	}
}

func ofDevices(f func(*devices.Service, *http.Request) (any, error)) handler {
	return func(g *guardian, _ http.ResponseWriter, r *http.Request) (any, error) { return f(g.devices, r) }
}

func ofActs(f func(*acts.Service, *http.Request) (any, error)) handler {
	return func(g *guardian, _ http.ResponseWriter, r *http.Request) (any, error) {
		return f(&acts.Service{Record: g.records.Append, Session: g.runningContext, Losses: &g.losses}, r)
	}
}

// String is the word for a caller; None has none.
func (c Caller) String() string {
	return [...]string{None: "", Owner: "owner", Window: "window"}[c]
}

// OpenAPI is the table as a document for other programs.
func OpenAPI(version string) any {
	var rows []openapi.Route
	for _, r := range Routes() {
		rows = append(rows, openapi.Route{Path: r.Path, Read: r.Read.String(), Write: r.Write.String(), What: r.What})
	}
	return openapi.Document(version, rows)
}

// handler serves the table, and nothing beside it.
func (g *guardian) handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range Routes() {
		mux.HandleFunc(route.Path, func(w http.ResponseWriter, r *http.Request) { g.answer(route, w, r) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: "no such route"})
	})
	return mux
}

// hijacked is the answer of a handler that took the connection over.
type hijacked struct{}

func (g *guardian) answer(route Route, w http.ResponseWriter, r *http.Request) {
	g.touch()
	caller := callerOf(r)
	do, who := route.read, route.Read
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		do, who = route.write, route.Write
	default:
		do = nil
	}
	if caller != None && g.ofHostCommand(r) {
		g.refusedByOrigin(r)
		caller = None
	}
	switch {
	case caller == None:
		fail(w, &api.Error{Status: http.StatusForbidden, Code: api.CodeForbidden, Message: "this caller may not"})
		return
	case do == nil:
		fail(w, &api.Error{
			Status: http.StatusMethodNotAllowed, Code: api.CodeBadRequest, Message: r.Method + " means nothing here",
		})
		return
	case !caller.may(who):
		fail(w, &api.Error{Status: http.StatusForbidden, Code: api.CodeForbidden, Message: "this caller may not"})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, api.MaxBody)
	result, err := do(g, w, r)
	if err != nil {
		fail(w, apierror.Of(err))
		return
	}
	if _, took := result.(hijacked); took {
		return
	}
	write(w, http.StatusOK, result)
}

// callerOf is Owner for a plain client on the unix socket. A browser cannot
// reach a unix socket by itself; what relays one is told apart by the headers
// that a page cannot leave out, and by the Host: that of a page which was
// brought here by its name (DNS rebinding) has a dot or a port.
func callerOf(r *http.Request) Caller {
	if web.From(r.Context()) != nil {
		return Window
	}
	if _, ok := instance.PeerOf(r.Context()); !ok {
		return None
	}
	if r.Host == "" || strings.ContainsAny(r.Host, ".:[") ||
		r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return None
	}
	return Owner
}

func fail(w http.ResponseWriter, e *api.Error) { write(w, e.Status, e) }

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"internal","error":"encode the answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a caller that left needs no answer
}

// read decodes a request's body; an empty one is the zero value.
func read[T any](r *http.Request) (T, error) { return requests.Optional[T](r) }

func (g *guardian) getStatus(http.ResponseWriter, *http.Request) (any, error) { return g.status(), nil }

func (g *guardian) postStop(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.StopRequest](r)
	if err != nil {
		return nil, err
	}
	cause := errAsked
	if req.Reason != "" {
		cause = fmt.Errorf("%w: %s", errAsked, req.Reason)
	}
	// Shutdown waits for this answer to be written.
	g.stop(cause)
	return struct{}{}, nil
}

func (g *guardian) postReload(_ http.ResponseWriter, r *http.Request) (any, error) {
	return g.reload(r.Context())
}

func (g *guardian) getSessions(_ http.ResponseWriter, r *http.Request) (any, error) {
	list := g.sessions.List(r.URL.Query().Get("all") != "")
	asks := map[string]int{}
	for _, ask := range g.queue.Pending() {
		asks[ask.SessionID]++
	}
	for i := range list {
		list[i].PendingAsks = asks[list[i].ID]
		list[i].Limits, list[i].Usage = g.usage(list[i].ID)
	}
	return list, nil
}

func (g *guardian) getSession(_ http.ResponseWriter, r *http.Request) (any, error) {
	return g.sessions.Find(r.PathValue("name"))
}

func (g *guardian) postSessionStop(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.StopRequest](r)
	if err != nil {
		return nil, err
	}
	info, err := g.sessions.Find(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if info.State == api.StateStopped || info.State == api.StateFailed {
		return info.SessionInfo, nil
	}
	l := g.linked(r.Context(), info.ID)
	if l == nil {
		return nil, &api.Error{
			Status: http.StatusConflict, Code: api.CodeNotFound,
			Message: fmt.Sprintf("stop session %q: its shim has not come back to this guardian yet", info.Name),
		}
	}
	if err := l.end(r, req); err != nil {
		return nil, err
	}
	info, err = g.sessions.Find(info.ID)
	return info.SessionInfo, err
}

// linkedWithin is how long a session's shim may take to connect.
const linkedWithin = 3 * time.Second

// linked is the link of a session, nil where its shim does not come. Of one that is
// being opened or taken over it is there a moment after the name is.
func (g *guardian) linked(ctx context.Context, id string) *live {
	ctx, cancel := context.WithTimeout(ctx, linkedWithin)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		g.mu.Lock()
		l := g.live[id]
		g.mu.Unlock()
		if l != nil {
			return l
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// end asks the shim to end the session, and kills the shim when it does not.
func (l *live) end(r *http.Request, req api.StopRequest) error {
	grace := time.Duration(req.GraceMS) * time.Millisecond
	if grace <= 0 {
		grace = defaultGrace
	}
	reason := req.Reason
	if reason == "" {
		reason = "asked to stop"
	}
	l.ask(reason)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-l.gone:
		return nil
	case <-r.Context().Done():
		return fmt.Errorf("stop session: %w", r.Context().Err())
	case <-timer.C:
	}
	if err := l.shim.Kill(); err != nil {
		return fmt.Errorf("stop session: kill its shim: %w", err)
	}
	select {
	case <-l.gone:
		return nil
	case <-r.Context().Done():
		return fmt.Errorf("stop session: %w", r.Context().Err())
	}
}

// running is a session that runs, by its name.
func (g *guardian) running(name string) (*live, error) {
	info, err := g.sessions.Find(name)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	l := g.live[info.ID]
	g.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("policy of session %q: it does not run: %w", name, registry.ErrNotFound)
	}
	return l, nil
}

func (g *guardian) runningContext(name string) (*sessionctx.Context, error) {
	l, err := g.running(name)
	if err != nil {
		return nil, err
	}
	return &l.Context, nil
}
