// Package mcpservice judges the messages between one session and the MCP servers that its
// policy declares.
//
// Promise: a call passes after policy, or the person whom it asks, and the record have
// it; a tool that its server describes otherwise than when it was pinned is shown to a person before
// it is used; what is no frame does not reach a declared server.
//
// It reads frames by way of room mcp, carries nothing and starts no server.
//
// Most readers want [Service.Edit].
package mcpservice

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"cloister/egress/verdict"
	"cloister/guardian/sessionctx"
	"cloister/internal/authority"
	"cloister/internal/budget"
	"cloister/mcp"
	"cloister/policy"
)

// A Service judges the MCP of one session, with what it has learned of its servers.
type Service struct {
	*sessionctx.Context
	pins   *mcp.Pins
	memory *budget.Share // for frames

	mu sync.Mutex
	// endpoints are the paths that servers of the older transport named for what
	// goes up, by host and path.
	endpoints map[string]string
	// inSummary are refusals that the summary has already, and that egress reports next.
	inSummary int
}

// New is the service of a session with its share of memory; pins are all sessions'.
func New(w *sessionctx.Context, pins *mcp.Pins, memory *budget.Share) *Service {
	return &Service{Context: w, pins: pins, memory: memory}
}

// counted notes that the summary has a refusal.
func (d *Service) counted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inSummary++
}

// Counted reports whether the summary has a refusal to that destination already.
func (d *Service) Counted(f verdict.Flow) bool {
	if f.Kind != verdict.Request || len(d.Snapshot.Load().MCPServersAt(f.Authority)) == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	had := d.inSummary > 0
	d.inSummary = max(0, d.inSummary-1)
	return had
}

// maxEndpoints bounds what servers can make a session remember.
const maxEndpoints = 256

func (d *Service) learn(a authority.Authority, path, server string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.endpoints == nil {
		d.endpoints = map[string]string{}
	}
	if len(d.endpoints) >= maxEndpoints {
		return errors.New("it has named too many endpoints")
	}
	d.endpoints[a.String()+path] = server
	return nil
}

func (d *Service) knows(a authority.Authority, path string) (server string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	server, ok = d.endpoints[a.String()+path]
	return server, ok
}

// Learned lets requests through to a path that a declared server named itself,
// where no rule speaks of it.
func (d *Service) Learned(q verdict.Query, v policy.Verdict) policy.Verdict {
	if q.HTTP == nil || v.Rule != policy.RuleUnlisted || q.HTTP.Method != http.MethodPost || q.HTTP.BadPath != nil {
		return v
	}
	if others, err := q.HTTP.Others(); err != nil || len(others) > 0 {
		return v
	}
	if server, ok := d.knows(q.Authority, q.HTTP.Path.Wire()); ok {
		v.Effect, v.Rule, v.Hints = policy.Allow, "mcp "+server, nil
		v.Reason = "the MCP server " + server + " takes its messages there"
	}
	return v
}

// A route is a request to the host of a declared MCP server.
type route struct {
	d      *Service
	server *policy.MCPServer
	// strict says that the request is for the server itself: whatever is no frame is
	// refused. To another path of its host a frame is judged, and others may pass.
	strict bool
	http   *verdict.HTTP
	path   string
	odd    string // why the request has no single reading
}

// route is where a request to an MCP server's host goes; nil for all others.
func (d *Service) route(q verdict.Query) *route {
	servers := d.Snapshot.Load().MCPServersAt(q.Authority)
	if len(servers) == 0 || q.HTTP == nil {
		return nil
	}
	r := &route{d: d, server: servers[0], http: q.HTTP, path: q.Path}
	if q.HTTP.BadPath == nil {
		r.path = q.HTTP.Path.Wire()
	}
	known, learned := d.knows(q.Authority, r.path)
	for _, s := range servers {
		if learned && s.Name == known || serves(s, r.path) {
			r.server, r.strict = s, true
		}
	}
	r.odd = oddly(q.HTTP)
	return r
}

// serves tells of a path that a server may take for its own: it may not tell upper case
// from lower, nor a slash at the end, and take what is below its path, too.
func serves(s *policy.MCPServer, at string) bool {
	own, at := strings.ToLower(path.Clean("/"+s.Path)), strings.ToLower(path.Clean("/"+at))
	return at == own || own != "/" && strings.HasPrefix(at, own+"/")
}

// oddly is why a request has no single reading. No client of MCP writes one so.
func oddly(h *verdict.HTTP) string {
	others, err := h.Others()
	switch {
	case err != nil:
		return err.Error()
	case len(others) > 0:
		return others[0].Says + " makes another request of it"
	case h.BadPath != nil && (h.Raw != "*" || h.Body):
		return h.BadPath.Error()
	}
	return ""
}

// Edit is what reads a request to the host of a declared server, and its answer;
// false for all other requests.
func (d *Service) Edit(ctx context.Context, q verdict.Query) (verdict.Edit, bool) {
	if r := d.route(q); r != nil {
		return r.edit(ctx), true
	}
	return verdict.Edit{}, false
}

func (r *route) gate() *mcp.Gate {
	return &mcp.Gate{Judge: &judge{r.d, r.server}, Root: r.d.inProject}
}

// edit reads what passes.
func (r *route) edit(ctx context.Context) verdict.Edit {
	spoke := r.strict // whether the program has spoken MCP
	return verdict.Edit{
		Request: func(m *verdict.Message) error {
			asked, err := r.up(ctx, m)
			spoke = spoke || asked
			return err
		},
		Response: func(m *verdict.Message) error {
			if !spoke {
				return nil
			}
			return r.down(ctx, m)
		},
	}
}

// up judges a request; asked reports whether it was MCP's.
func (r *route) up(ctx context.Context, m *verdict.Message) (asked bool, err error) {
	m.Header.Del("Accept-Encoding") // what comes must be read
	if r.odd != "" {
		return true, r.refuse(ctx, http.StatusForbidden,
			"a request to the host of an MCP server has one reading only: "+r.odd)
	}
	if r.strict {
		return true, r.upStrict(ctx, m)
	}
	if !r.http.Body {
		return false, nil
	}
	c := r.http.Content()
	body, json, odd := begin(m.Body())
	m.SetBody(body, m.Length())
	switch {
	case c.Odd != "" && json, c.Odd != "" && strings.Contains(c.Type, "json"):
		odd = c.Odd
	case strings.Contains(c.Type, "json") && !c.Plain():
		odd = "it says that it is written in " + c.Charset
	case !json && !c.Plain() && !strings.HasPrefix(c.Type, "multipart/"):
		odd = "it says that it is written in " + c.Charset // where a brace is another byte
	}
	if odd != "" {
		return true, r.refuse(ctx, http.StatusUnsupportedMediaType,
			"a body at the host of an MCP server that can be read in two ways: "+odd)
	}
	if !json && !strings.Contains(c.Type, "json") && !(c.Coded && r.http.Method == http.MethodPost && c.Type == "") {
		return false, nil
	}
	return r.upFrame(ctx, m)
}

// upStrict judges a request to the server itself.
func (r *route) upStrict(ctx context.Context, m *verdict.Message) error {
	for range r.http.Fields("Upgrade") {
		return r.refuse(ctx, http.StatusForbidden, "WebSocket is no transport of MCP that is judged here")
	}
	switch r.http.Method {
	case http.MethodPost:
	case http.MethodGet, http.MethodDelete:
		if r.http.Body {
			return r.refuse(ctx, http.StatusBadRequest, "a "+r.http.Method+" with a body is no transport of MCP")
		}
		return r.inQuery(ctx)
	default:
		return r.refuse(ctx, http.StatusMethodNotAllowed, "the method "+r.http.Method+" is no transport of MCP")
	}
	if c := r.http.Content(); c.Odd != "" || c.Type != "application/json" || c.Charset != "" && c.Charset != "utf-8" ||
		c.Coded {
		return r.refuse(ctx, http.StatusUnsupportedMediaType, "an MCP server takes application/json in UTF-8 as it is")
	}
	if err := r.inQuery(ctx); err != nil {
		return err
	}
	_, err := r.upFrame(ctx, m)
	return err
}

// inQuery refuses a call that stands in the query, as JSON-RPC over GET has it.
func (r *route) inQuery(ctx context.Context) error {
	values, err := r.http.Values()
	if err != nil {
		return r.refuse(ctx, http.StatusBadRequest, "the query cannot be read as one thing only")
	}
	for key, list := range values {
		if strings.EqualFold(key, "jsonrpc") || slices.ContainsFunc(list, callsIn) {
			return r.refuse(ctx, http.StatusBadRequest, "a call in the query is no transport of MCP")
		}
	}
	return nil
}

func callsIn(value string) bool {
	value = strings.ToLower(value)
	return strings.Contains(value, "jsonrpc") || strings.Contains(value, "tools/") ||
		strings.Contains(value, "resources/") || strings.Contains(value, "prompts/")
}

// upFrame judges a body that is a frame, or may be one.
func (r *route) upFrame(ctx context.Context, m *verdict.Message) (asked bool, err error) {
	out := r.frame(ctx, m)
	defer out.end()
	text, err := mcp.ReadFrame(m.Body(), out.hold)
	if err != nil {
		return true, r.refusal(ctx, err)
	}
	if !r.strict && !mcp.Speaks(text) {
		out.send(text)
		return false, nil
	}
	if r.http.Method != http.MethodPost {
		return true, r.refuse(ctx, http.StatusMethodNotAllowed, "a frame in a "+r.http.Method+" is no transport of MCP")
	}
	header := mcp.Header{
		Method: strings.Join(slices.Collect(r.http.Fields("Mcp-Method")), ","),
		Name:   strings.Join(slices.Collect(r.http.Fields("Mcp-Name")), ","),
	}
	if err := r.gate().Up(ctx, text, header); err != nil {
		return true, r.refusal(ctx, err)
	}
	out.send(text)
	return true, nil
}

// inProject reports whether a root is one that the program works in.
func (d *Service) inProject(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.RawQuery != "" {
		return false
	}
	at := path.Clean(u.Path)
	return path.IsAbs(u.Path) && slices.ContainsFunc([]string{d.Info.Project, d.Info.Path, "/work"},
		func(dir string) bool {
			return dir != "" && (at == dir || strings.HasPrefix(at, dir+"/"))
		})
}

// refusal records an error of the gate, and makes it one of egress.
func (r *route) refusal(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*mcp.Refused](err)
	if !ok {
		return err
	}
	if refused.Verdict.Server == "" { // the judge has not seen it
		if err := r.record(ctx, refused.Verdict.Reason); err != nil {
			return err
		}
	}
	return &verdict.Refused{
		Status: refused.Status, Answer: refused.Answer, ContentType: "application/json",
		Verdict: verdict.Answer{Effect: "deny", Rule: refused.Verdict.Rule, Reason: refused.Verdict.Reason,
			Hints: refused.Verdict.Hints},
	}
}

func (r *route) refuse(ctx context.Context, status int, reason string) error {
	if err := r.record(ctx, reason); err != nil {
		return err
	}
	return &verdict.Refused{Status: status, Verdict: verdict.Answer{Effect: "deny", Reason: reason}}
}

// record writes down what was refused for its form.
func (r *route) record(ctx context.Context, reason string) error {
	j := judge{r.d, r.server}
	e := j.event("refuse", r.server.Name)
	e.Verdict, e.Reason = policy.Deny.String(), reason
	return r.d.Records.Append(context.WithoutCancel(ctx), e)
}
