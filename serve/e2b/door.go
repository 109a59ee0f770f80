package e2b

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/serve"
	"cloister/serve/e2b/answer"
	"cloister/serve/e2b/envd"
	"cloister/serve/e2b/wire"
	"cloister/serve/people"
	"cloister/serve/rates"
	"cloister/serve/tenants"
)

// EnvdVersion is the version of E2B's daemon whose wire the sandboxes answer.
const EnvdVersion = "0.6.4"

// envdPort is the port by which the SDKs name a sandbox's files and processes.
const envdPort = 49983

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
	api   *http.ServeMux
	envd  *envd.Service
	rates rates.Rates
}

// New makes a door.
func New(o Options) *Door {
	d := &Door{Options: o, api: http.NewServeMux(), envd: envd.New(o.Log)}
	d.rates.Now = time.Now
	d.control()
	return d
}

// Close ends what the door keeps open.
func (d *Door) Close() { d.envd.Close() }

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
		answer.Failed(d.Log, w, r, "", err)
		return
	}
	release, err := d.rates.Enter(s.Tenant(), d.limits(s.Tenant()))
	if err != nil {
		answer.Fail(w, err)
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
	if !envd.SignedPath(r) && !answer.Same(r.Header.Get("X-Access-Token"), s.Record().Token) {
		answer.Fail(w, answer.Error(http.StatusUnauthorized, "the access token is missing or wrong"))
		return
	}
	if large[r.URL.Path] {
		done, err := d.rates.EnterLarge(r.Context(), s.Tenant())
		if err != nil {
			answer.Fail(w, err)
			return
		}
		defer done()
	}
	d.envd.Serve(w, r, s)
}

// passed answers a request for a sandbox that another server has, by that server.
func (d *Door) passed(w http.ResponseWriter, r *http.Request, tenant, id string) bool {
	if d.Elsewhere == nil || !idPattern().MatchString(id) || d.Host.Has(id) {
		return false
	}
	done, err := d.Elsewhere(w, r, tenant, id)
	if err != nil {
		answer.Failed(d.Log, w, r, tenant, err)
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

// gone is what the SDKs take for a sandbox that does not run.
func gone(w http.ResponseWriter, id string, state serve.State) {
	how := "was not found"
	if state == serve.Paused {
		how = "is not running"
	}
	answer.JSON(w, http.StatusBadGateway, map[string]any{
		"sandboxId": answer.Clip(id), "message": "The sandbox " + how, "code": http.StatusBadGateway,
	})
}

// large are the calls whose answers may have many megabytes.
var large = map[string]bool{"/filesystem.Filesystem/ListDir": true, "/process.Process/List": true}
