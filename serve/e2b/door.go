package e2b

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/serve"
	"cloister/serve/database"
	"cloister/serve/e2b/wire"
	"cloister/serve/files"
	"cloister/serve/people"
	"cloister/serve/rates"
	"cloister/serve/tenants"
)

// EnvdVersion is the version of E2B's daemon whose wire the sandboxes answer.
const EnvdVersion = "0.6.4"

// envdPort is the port by which the SDKs name a sandbox's files and processes.
const envdPort = 49983

// maxBody bounds a request of the control API.
const maxBody = 1 << 20

// Options are what a Door depends on.
type Options struct {
	Host    *serve.Host
	Tenants *tenants.Register
	// People knows persons by their tokens; nil where none are known.
	People *people.Provider
	// Images gives the ID of a tenant's image of a digest; empty for none.
	Images func(tenant, digest string) (string, error)
	// Domain is below which sandboxes have their names: PORT-ID.DOMAIN. Empty for none.
	Domain string
	// Elsewhere answers for a sandbox that another server has, and is nil where there is one server;
	// false where none has it. With a tenant it answers for that tenant's alone.
	Elsewhere func(w http.ResponseWriter, r *http.Request, tenant, id string) (bool, error)
	Log       *slog.Logger
}

// Door answers requests.
type Door struct {
	Options
	api      *http.ServeMux
	envd     *http.ServeMux
	rates    rates.Rates
	watchers watchers
}

// New makes a door.
func New(o Options) *Door {
	d := &Door{Options: o, api: http.NewServeMux(), envd: http.NewServeMux()}
	d.rates.Now = time.Now
	d.control()
	d.inside()
	return d
}

// Close ends what the door keeps open.
func (d *Door) Close() { d.watchers.close() }

// ServeHTTP sends a request to the control API or to a sandbox.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// An earlier answer on this connection may have left its own.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // not every writer has one
	if id, port, ok := d.addressed(r); ok {
		d.serveSandbox(w, r, id, port)
		return
	}
	d.api.ServeHTTP(w, r)
}

var idPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^i[a-z0-9]{19}$`) })

// addressed reads which sandbox a request is for: by its host name, or by the two headers.
func (d *Door) addressed(r *http.Request) (id string, port int, ok bool) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if label, under := strings.CutSuffix(strings.ToLower(host), "."+strings.ToLower(d.Domain)); under && d.Domain != "" {
		number, id, dash := strings.Cut(label, "-")
		port, err := strconv.ParseUint(number, 10, 16)
		if dash && err == nil && port > 0 {
			return id, int(port), true
		}
	}
	if id := r.Header.Get("E2b-Sandbox-Id"); id != "" {
		port, err := strconv.ParseUint(r.Header.Get("E2b-Sandbox-Port"), 10, 16)
		if err != nil || port == 0 {
			port = envdPort
		}
		return id, int(port), true
	}
	return "", 0, false
}

// find gives a sandbox by an ID that a client sent.
func (d *Door) find(id string) (*serve.Sandbox, error) {
	if !idPattern().MatchString(id) {
		return nil, serve.ErrNone
	}
	return d.Host.ByID(id)
}

// serveSandbox answers a request for one sandbox.
func (d *Door) serveSandbox(w http.ResponseWriter, r *http.Request, id string, port int) {
	if d.passed(w, r, "", id) {
		return
	}
	s, err := d.find(id)
	if errors.Is(err, serve.ErrNone) {
		gone(w, id, "")
		return
	}
	if err != nil {
		d.fail(w, r, "", err)
		return
	}
	release, err := d.rates.Enter(s.Tenant(), d.limits(s.Tenant()))
	if err != nil {
		fail(w, err)
		return
	}
	defer release()
	if port != envdPort {
		d.proxy(w, r, s, port)
		return
	}
	if wire.CORS(w, r) {
		return
	}
	// Every client that knows the ID may learn whether it runs, as with E2B: it has 95
	// random bits.
	if state := s.Record().State; state != serve.Running {
		gone(w, id, state)
		return
	}
	if r.URL.Path == "/health" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !signedPath(r) && !same(r.Header.Get("X-Access-Token"), s.Record().Token) {
		fail(w, &status{http.StatusUnauthorized, "the access token is missing or wrong"})
		return
	}
	if large[r.URL.Path] {
		done, err := d.rates.EnterLarge(r.Context(), s.Tenant())
		if err != nil {
			fail(w, err)
			return
		}
		defer done()
	}
	d.envd.ServeHTTP(w, r.WithContext(withSandbox(r.Context(), s)))
}

// passed answers a request for a sandbox that another server has, by that server.
func (d *Door) passed(w http.ResponseWriter, r *http.Request, tenant, id string) bool {
	if d.Elsewhere == nil || !idPattern().MatchString(id) || d.Host.Has(id) {
		return false
	}
	done, err := d.Elsewhere(w, r, tenant, id)
	if err != nil {
		d.fail(w, r, tenant, err)
	}
	return done || err != nil
}

// limits are a tenant's, or the strictest for one that was removed.
func (d *Door) limits(tenant string) tenants.Limits {
	t, err := d.Tenants.Named(tenant)
	if err != nil {
		return tenants.Limits{}
	}
	return t.Limits
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// gone is what the SDKs take for a sandbox that does not run.
func gone(w http.ResponseWriter, id string, state serve.State) {
	how := "was not found"
	if state == serve.Paused {
		how = "is not running"
	}
	reply(w, http.StatusBadGateway, map[string]any{
		"sandboxId": clip(id), "message": "The sandbox " + how, "code": http.StatusBadGateway,
	})
}

// clip bounds what of a client's words comes back to it.
func clip(s string) string { return s[:min(len(s), 64)] }

// large are the calls whose answers may have many megabytes.
var large = map[string]bool{"/filesystem.Filesystem/ListDir": true, "/process.Process/List": true}

// status is an error with its HTTP status.
type status struct {
	code int
	text string
}

func (e *status) Error() string { return e.text }

// statusOf is an error as the SDKs read it.
func statusOf(err error) (int, string) {
	var (
		own     *status
		over    *serve.Over
		bad     *serve.BadRequest
		stopped *serve.NotRunning
		file    *files.Error
		away    *database.Away
	)
	switch {
	case errors.As(err, &own):
		return own.code, own.text
	case errors.Is(err, serve.ErrNone):
		return http.StatusNotFound, "sandbox not found"
	case errors.As(err, &over):
		return http.StatusTooManyRequests, over.What
	case errors.As(err, &bad):
		return http.StatusBadRequest, bad.What
	case errors.As(err, &stopped):
		return http.StatusConflict, stopped.Error()
	case errors.As(err, &file):
		return fileStatus(file.Code), file.Message
	case errors.As(err, &away):
		return http.StatusServiceUnavailable, outOfTouch
	}
	return http.StatusInternalServerError, hidden
}

// outOfTouch is what a client learns where the servers' database cannot be asked.
const outOfTouch = "the server is out of touch with its database: try again"

// hidden is what a client learns of an error of the server's own, which may name its folders.
const hidden = "the server could not carry this out; its log says why"

// fail answers a tenant's request with an error, and writes down one of the server's own.
func (d *Door) fail(w http.ResponseWriter, r *http.Request, tenant string, err error) {
	code, _ := statusOf(err)
	if code == http.StatusInternalServerError || code == http.StatusServiceUnavailable {
		d.Log.Error("answer a request", "tenant", tenant, "method", r.Method, "path", clip(r.URL.Path), "error", err)
	}
	fail(w, err)
}

func fileStatus(c files.Code) int {
	switch c {
	case files.NotFound:
		return http.StatusNotFound
	case files.Full:
		return http.StatusInsufficientStorage
	case files.Denied:
		return http.StatusForbidden
	case files.Invalid, files.Exists, files.TooMuch:
		return http.StatusBadRequest
	case files.Failed:
	}
	return http.StatusInternalServerError
}

// fail answers with an error. The SDKs read the code in the body.
func fail(w http.ResponseWriter, err error) {
	code, text := statusOf(err)
	reply(w, code, map[string]any{"code": code, "message": text})
}

func reply(w http.ResponseWriter, code int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"code":500,"message":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall)) // not every writer has one
	w.WriteHeader(code)
	_, _ = w.Write(text) // the client has gone
}

// read reads a request's JSON.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(stall)) // not every writer has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = rc.SetReadDeadline(time.Time{}) // it would end the context of the request
	if err != nil {
		return &status{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is cut off, or over %d bytes", maxBody)}
	}
	if len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return &status{http.StatusBadRequest, "the request is not as it should be: " + err.Error()}
	}
	return nil
}
