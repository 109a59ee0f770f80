// Package forward sends a request for a sandbox on to the server that has it.
//
// [Forward.Answer] asks the database where a sandbox is, and passes the request on as it came. The other
// server knows the key or the token anew: nothing is granted here.
//
// The promise: what a database's row says can send a request, with its key, to a server of the
// domain's own certificate or to this host's loopback, and nowhere else; a request is passed on once;
// a tenant's key never learns that another tenant's sandbox exists. It keeps no connection that a
// client has stopped to read.
//
// Most readers want [Forward.Answer].
package forward

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"cloister/serve/database"
)

// Header says that a request was passed on, by which server. Who sends it without that has its
// request answered here.
const Header = "X-Cloister-Passed-On"

// Bounds: of questions that requests without a key can have the database asked at once, and of how
// long a client may leave its answer unread.
const (
	maxAsked = 32
	stall    = 60 * time.Second
)

// Forward passes requests on.
type Forward struct {
	shared    *database.Client
	transport *http.Transport
	log       *slog.Logger
	asked     chan struct{}
}

// New makes one. domain is what other servers' certificates are for; empty for servers of this host.
func New(shared *database.Client, domain string, log *slog.Logger) *Forward {
	return &Forward{shared: shared, log: log, asked: make(chan struct{}, maxAsked), transport: &http.Transport{
		TLSClientConfig: &tls.Config{ServerName: domain, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression: true,
		DialContext:        (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}}
}

// Close lets go of the connections that wait.
func (f *Forward) Close() { f.transport.CloseIdleConnections() }

// CheckAddress refuses what is no address of another server: beyond the loopback keys would be sent
// in the clear.
func CheckAddress(address, domain string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Path != "" {
		return nil, fmt.Errorf("%q: want https://HOST:PORT", address)
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case u.Scheme == "https" && domain != "":
		return u, nil
	case u.Scheme == "http" && ip != nil && ip.IsLoopback():
		return u, nil
	}
	return nil, fmt.Errorf("%q: want https://HOST:PORT and --domain, or http:// and an address of the loopback", address)
}

// Answer passes a request for a sandbox on to the server that has it. It reports false where none has it,
// or where it is not the tenant's that asks.
func (f *Forward) Answer(w http.ResponseWriter, r *http.Request, tenant, id string) (bool, error) {
	to, err := f.to(r, tenant, id)
	if to == nil || err != nil {
		return false, err
	}
	f.proxy(to).ServeHTTP(&bounded{w, http.NewResponseController(w)}, r)
	return true, nil
}

// to gives the address of the server that has a sandbox.
func (f *Forward) to(r *http.Request, tenant, id string) (*url.URL, error) {
	if r.Header.Get(Header) != "" {
		return nil, nil
	}
	select {
	case f.asked <- struct{}{}:
		defer func() { <-f.asked }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	at, err := f.shared.Find(r.Context(), id)
	others := err == nil && tenant != "" && at.Tenant != tenant
	if errors.Is(err, database.ErrNone) || others || err == nil && at.Owner == f.shared.ID() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !at.Alive {
		return nil, &database.Away{Why: "the server that has sandbox " + id + " is out of touch"}
	}
	to, err := CheckAddress(at.Address, f.transport.TLSClientConfig.ServerName)
	if err == nil && to.Scheme == "http" && !strings.HasPrefix(f.shared.Address, "http:") {
		err = errors.New("it is not encrypted, and this server's is")
	}
	if err != nil {
		return nil, fmt.Errorf("pass a request on: the address of server %s: %w", at.Owner, err)
	}
	return to, nil
}

// noAnswer is what a client learns of another server that does not answer.
const noAnswer = `{"code":503,"message":"the server that has the sandbox does not answer: try again"}`

func (f *Forward) proxy(to *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Transport: f.transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.Host = to.Scheme, to.Host, pr.In.Host
			pr.Out.Header.Set(Header, f.shared.ID())
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				f.log.Warn("pass a request on", "server", to.Host, "error", err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, noAnswer) // it may have gone
		},
	}
}

// bounded lets no client leave its answer unread.
type bounded struct {
	http.ResponseWriter
	c *http.ResponseController
}

func (b *bounded) Write(p []byte) (int, error) {
	_ = b.c.SetWriteDeadline(time.Now().Add(stall)) // not every writer has one
	return b.ResponseWriter.Write(p)
}

func (b *bounded) Unwrap() http.ResponseWriter { return b.ResponseWriter }
