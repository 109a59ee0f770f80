package e2b

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"cloister/serve"
	"cloister/serve/database"
	"cloister/serve/e2b/answer"
	"cloister/serve/e2b/wire"
	"cloister/serve/people"
	"cloister/serve/templates"
	"cloister/serve/tenants"
)

// caller is the tenant of a request, and what the request's key may do.
type caller struct {
	tenants.Tenant
	scope tenants.Scope
}

// handler answers a request of a tenant.
type handler func(http.ResponseWriter, *http.Request, caller) error

// control lists the routes of the control API, with what a key must be for.
func (d *Door) control() {
	for _, route := range []struct {
		pattern string
		scope   tenants.Scope
		f       handler
	}{
		{"POST /sandboxes", tenants.All, d.create},
		{"POST /v2/sandboxes", tenants.All, d.create},
		{"GET /sandboxes", tenants.Read, d.listAll},
		{"GET /v2/sandboxes", tenants.Read, d.list},
		{"GET /sandboxes/{id}", tenants.Read, d.info},
		{"DELETE /sandboxes/{id}", tenants.All, d.kill},
		{"POST /sandboxes/{id}/timeout", tenants.All, d.timeout},
		{"POST /sandboxes/{id}/refreshes", tenants.All, d.refresh},
		{"POST /sandboxes/{id}/pause", tenants.All, d.pause},
		{"POST /sandboxes/{id}/resume", tenants.All, d.resume},
		{"POST /sandboxes/{id}/connect", tenants.All, d.connect},
		{"POST /v2/sandboxes/{id}/connect", tenants.All, d.connect},
		{"PUT /sandboxes/{id}/network", tenants.All, d.setNetwork},
		{"POST /sandboxes/{id}/fork", tenants.All, d.fork},
		{"POST /sandboxes/{id}/snapshots", tenants.All, d.snapshot},
		{"GET /sandboxes/{id}/metrics", tenants.Read, d.metrics},
		{"GET /snapshots", tenants.Read, d.snapshots},
		{"GET /templates", tenants.Read, d.listTemplates},
		{"GET /v2/templates", tenants.Read, d.listTemplates},
		{"GET /templates/{id}", tenants.Read, d.showTemplate},
		{"GET /templates/aliases/{alias}", tenants.Read, d.alias},
		{"POST /v3/templates", tenants.All, d.makeTemplate},
		{"POST /v2/templates", tenants.All, d.makeTemplate},
		{"POST /v2/templates/{id}/builds/{build}", tenants.All, d.build},
		{"GET /templates/{id}/builds/{build}/status", tenants.Read, d.buildStatus},
		{"DELETE /templates/{id}", tenants.All, d.removeTemplate},
	} {
		d.api.HandleFunc(route.pattern, d.keyed(route.scope, route.f))
	}
	d.api.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	d.api.HandleFunc("/", d.keyed(tenants.Read, func(_ http.ResponseWriter, r *http.Request, _ caller) error {
		return answer.Error(http.StatusNotFound, "cloister serve has no "+r.Method+" "+answer.Clip(r.URL.Path))
	}))
}

// keyed finds the tenant of a request's key.
func (d *Door) keyed(need tenants.Scope, f handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t, err := d.who(r)
		if several, ok := errors.AsType[*people.Several](err); ok {
			answer.Fail(w, answer.Error(http.StatusBadRequest, several.Error()))
			return
		}
		if errors.Is(err, tenants.ErrNone) {
			answer.Fail(w, answer.Error(http.StatusUnauthorized, "the API key is missing or not known"))
			return
		}
		if away, ok := errors.AsType[*database.Away](err); ok {
			answer.Failed(d.Log, w, r, "", away)
			return
		}
		if err != nil {
			d.Log.Error("find a tenant", "error", err)
			answer.Fail(w, answer.Error(http.StatusInternalServerError, "the register of tenants cannot be read"))
			return
		}
		release, err := d.rates.Enter(t.Name, t.Limits)
		if err != nil {
			answer.Fail(w, err)
			return
		}
		defer release()
		if need == tenants.All && t.scope != tenants.All {
			answer.Fail(w, answer.Error(http.StatusForbidden, "the API key may only read"))
			return
		}
		if d.passed(w, r, t.Name, r.PathValue("id")) {
			return
		}
		if err := f(w, r, t); err != nil {
			answer.Failed(d.Log, w, r, t.Name, err)
		}
	}
}

func keyOf(r *http.Request) string {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return key
	}
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return key
}

// createWire is a request for a sandbox, of both generations of the API.
type createWire struct {
	TemplateID      string            `json:"templateID"`
	Timeout         *int64            `json:"timeout"`
	AutoPause       bool              `json:"autoPause"`
	AutoPauseMemory *bool             `json:"autoPauseMemory"`
	AutoResume      *autoResume       `json:"autoResume"`
	Internet        *bool             `json:"allow_internet_access"`
	Network         *wire.Network     `json:"network"`
	Metadata        map[string]string `json:"metadata"`
	EnvVars         map[string]string `json:"envVars"`
	MCP             *struct{}         `json:"mcp"`
	IAM             *struct{}         `json:"iam"`
	VolumeMounts    []struct{}        `json:"volumeMounts"`
}

type autoResume struct {
	Enabled bool `json:"enabled"`
}

// defaultTimeout is that of E2B's SDKs.
const defaultTimeout = 300

func (q createWire) request(v2 bool) (serve.Request, error) {
	seconds := int64(15)
	if v2 {
		seconds = defaultTimeout
	}
	if q.Timeout != nil {
		seconds = *q.Timeout
	}
	if seconds < 0 || seconds > maxSeconds {
		return serve.Request{}, &serve.BadRequest{What: "timeout: not a number of seconds"}
	}
	out := serve.Request{
		Template: q.TemplateID, Metadata: q.Metadata, Env: q.EnvVars, Timeout: time.Duration(seconds) * time.Second,
		AutoPause: q.AutoPause, KeepDisk: q.AutoPauseMemory != nil && !*q.AutoPauseMemory,
		AutoStart: q.AutoResume != nil && q.AutoResume.Enabled,
	}
	out.Network.Off = q.Internet != nil && !*q.Internet
	volumes := len(q.VolumeMounts) > 0
	for name, given := range map[string]bool{"mcp": q.MCP != nil, "iam": q.IAM != nil, "volumeMounts": volumes} {
		if given {
			return out, &serve.BadRequest{What: name + ": cloister serve has none"}
		}
	}
	if n := q.Network; n != nil {
		if err := n.Check(); err != nil {
			return out, err
		}
		if !wire.IsHost(n.MaskRequestHost) {
			return out, &serve.BadRequest{What: "network: maskRequestHost: want a host name, with ${PORT} for the port"}
		}
		out.PortHost = n.MaskRequestHost
		out.Network.AllowOut, out.Network.DenyOut = n.AllowOut, n.DenyOut
		out.Private = n.AllowPublicTraffic != nil && !*n.AllowPublicTraffic
	}
	return out, nil
}

// maxSeconds keeps a time in seconds within a time.Duration.
const maxSeconds = 10 * 365 * 24 * 3600

func (d *Door) create(w http.ResponseWriter, r *http.Request, t caller) error {
	var q createWire
	if err := answer.Read(w, r, &q); err != nil {
		return err
	}
	request, err := q.request(strings.HasPrefix(r.URL.Path, "/v2/"))
	if err != nil {
		return err
	}
	if err := d.template(r.Context(), &request, t.Tenant); err != nil {
		return err
	}
	// What was begun is finished, whether or not the client waits: it is in the list then.
	s, err := d.Host.Create(context.WithoutCancel(r.Context()), t.Tenant, request)
	if err != nil {
		return err
	}
	answer.JSON(w, http.StatusCreated, d.made(s.Record()))
	return nil
}

// template finds what a request wants the sandbox to be made of.
func (d *Door) template(ctx context.Context, q *serve.Request, t tenants.Tenant) error {
	if q.Template == "" || q.Template == templates.Base {
		q.Template = templates.Base
		return nil
	}
	made, err := d.templatesOf(t.Name).Find(q.Template)
	switch {
	case err == nil && made.Made.Image == "":
		return answer.Error(http.StatusConflict, "template '"+answer.Clip(q.Template)+
			"' has no image yet: its build names one")
	case err == nil:
		q.Template, q.Made = made.ID, made.Made
		return nil
	case !errors.Is(err, templates.ErrNone):
		return err
	}
	snap, err := d.Host.FindSnapshot(ctx, t, q.Template)
	if err != nil {
		return err
	}
	if snap == nil {
		return answer.Error(http.StatusNotFound, "template '"+answer.Clip(q.Template)+
			"' not found: there is base, and the tenant's templates and snapshots")
	}
	q.From, q.Made = snap, snap.Made
	env := maps.Clone(snap.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, q.Env)
	q.Env, q.Network = env, q.Network.Less(snap.Network)
	return nil
}

// made is a sandbox as it is answered to its maker.
func (d *Door) made(r serve.Record) map[string]any {
	out := map[string]any{
		"templateID": r.Template, "sandboxID": r.ID, "clientID": "cloister", "envdVersion": EnvdVersion,
		"envdAccessToken": r.Token, "domain": nil,
	}
	if d.Domain != "" {
		out["domain"] = d.Domain
	}
	if r.Private {
		out["trafficAccessToken"] = r.Traffic
	}
	return out
}

// What E2B says of a machine's size, where ours has no one number.
const (
	shownCPUs = 2
	shownMB   = 1024
)

// shown is a sandbox as list and info have it.
func (d *Door) shown(r serve.Record) map[string]any {
	out := map[string]any{
		"templateID": r.Template, "sandboxID": r.ID, "clientID": "cloister", "envdVersion": EnvdVersion,
		"startedAt": r.Created.UTC().Format(time.RFC3339Nano), "endAt": r.End.UTC().Format(time.RFC3339Nano),
		"cpuCount": shownCPUs, "memoryMB": shownMB, "diskSizeMB": shownMB, "state": string(r.State), "metadata": r.Metadata,
	}
	if r.Metadata == nil {
		out["metadata"] = map[string]string{}
	}
	return out
}

func (d *Door) info(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	rec := s.Record()
	out := d.shown(rec)
	if t.scope == tenants.All { // the token enters the sandbox
		out["envdAccessToken"] = rec.Token
	}
	out["allowInternetAccess"] = !rec.Network.Off
	if d.Domain != "" {
		out["domain"] = d.Domain
	}
	onTimeout := "kill"
	if rec.AutoPause {
		onTimeout = "pause"
	}
	out["lifecycle"] = map[string]any{"autoResume": rec.AutoStart, "onTimeout": onTimeout}
	if len(rec.Network.AllowOut)+len(rec.Network.DenyOut) > 0 || rec.Private {
		out["network"] = map[string]any{
			"allowOut": rec.Network.AllowOut, "denyOut": rec.Network.DenyOut, "allowPublicTraffic": !rec.Private,
		}
	}
	answer.JSON(w, http.StatusOK, out)
	return nil
}

func (d *Door) kill(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	// What was begun is finished, whether or not the client waits.
	if err := s.Kill(context.WithoutCancel(r.Context())); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type timeoutWire struct {
	Timeout  *int64 `json:"timeout"`
	Duration *int64 `json:"duration"`
	Memory   *bool  `json:"memory"`
}

// sandbox finds the sandbox of a request's path, and reads the request.
func (d *Door) sandbox(w http.ResponseWriter, r *http.Request, t caller) (*serve.Sandbox, timeoutWire, error) {
	var q timeoutWire
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err == nil {
		err = answer.Read(w, r, &q)
	}
	for _, n := range []*int64{q.Timeout, q.Duration} {
		if err == nil && n != nil && (*n < 0 || *n > maxSeconds) {
			err = &serve.BadRequest{What: "timeout: not a number of seconds"}
		}
	}
	return s, q, err
}

func seconds(n *int64, otherwise int64) time.Duration {
	if n == nil {
		return time.Duration(otherwise) * time.Second
	}
	return time.Duration(*n) * time.Second
}

func (d *Door) timeout(w http.ResponseWriter, r *http.Request, t caller) error {
	s, q, err := d.sandbox(w, r, t)
	if err == nil {
		err = s.SetEnd(seconds(q.Timeout, defaultTimeout), false)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (d *Door) refresh(w http.ResponseWriter, r *http.Request, t caller) error {
	s, q, err := d.sandbox(w, r, t)
	if err == nil {
		err = s.SetEnd(seconds(q.Duration, 60), true)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (d *Door) pause(w http.ResponseWriter, r *http.Request, t caller) error {
	s, q, err := d.sandbox(w, r, t)
	if err != nil {
		return err
	}
	did, err := s.Pause(context.WithoutCancel(r.Context()), q.Memory == nil || *q.Memory)
	if err == nil && !did {
		err = answer.Error(http.StatusConflict, "the sandbox is paused already")
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (d *Door) resume(w http.ResponseWriter, r *http.Request, t caller) error {
	s, q, err := d.sandbox(w, r, t)
	if err != nil {
		return err
	}
	did, err := s.Resume(context.WithoutCancel(r.Context()), seconds(q.Timeout, 15))
	if err == nil && !did {
		err = answer.Error(http.StatusConflict, "the sandbox is running already")
	}
	if err == nil {
		answer.JSON(w, http.StatusCreated, d.made(s.Record()))
	}
	return err
}

func (d *Door) connect(w http.ResponseWriter, r *http.Request, t caller) error {
	s, q, err := d.sandbox(w, r, t)
	if err != nil {
		return err
	}
	did, err := s.Resume(context.WithoutCancel(r.Context()), seconds(q.Timeout, defaultTimeout))
	if err != nil {
		return err
	}
	code := http.StatusOK
	if did {
		code = http.StatusCreated
	}
	answer.JSON(w, code, d.made(s.Record()))
	return nil
}
