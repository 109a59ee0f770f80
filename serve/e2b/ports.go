package e2b

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"cloister/serve"
	"cloister/serve/e2b/answer"
	"cloister/serve/e2b/wire"
	"cloister/serve/tenants"
)

// trafficHeader carries the token of a sandbox whose ports are private.
const trafficHeader = "E2b-Traffic-Access-Token"

// maxPortHead bounds the head of an answer that a program inside gives.
const maxPortHead = 1 << 20

// portWithin bounds how long a program inside may take to accept a connection.
const portWithin = 10 * time.Second

// proxy passes a request on to a port of a sandbox's loopback.
func (d *Door) proxy(w http.ResponseWriter, r *http.Request, s *serve.Sandbox, port int) {
	rec := s.Record()
	if rec.Private && !answer.Same(r.Header.Get(trafficHeader), rec.Traffic) {
		answer.JSON(w, http.StatusForbidden, map[string]any{
			"sandboxId": rec.ID, "message": "the traffic access token is missing or wrong", "code": http.StatusForbidden,
		})
		return
	}
	if rec.State == serve.Paused && rec.AutoStart {
		if _, err := s.Resume(context.WithoutCancel(r.Context()), defaultTimeout*time.Second); err != nil {
			d.Log.Error("resume a sandbox for a request", "sandbox", rec.ID, "error", err)
		}
	}
	if state := s.Record().State; state != serve.Running {
		gone(w, rec.ID, state)
		return
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, portWithin)
			defer cancel()
			return s.Dial(ctx, uint16(port))
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxPortHead,
	}
	p := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", "localhost:"+strconv.Itoa(port)
			pr.Out.Host = pr.In.Host
			if rec.PortHost != "" {
				pr.Out.Host = strings.ReplaceAll(rec.PortHost, wire.HostPort, strconv.Itoa(port))
			}
			for _, name := range []string{trafficHeader, "E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token", "X-Api-Key"} {
				pr.Out.Header.Del(name)
			}
			if strings.HasPrefix(pr.Out.Header.Get("Authorization"), "Bearer "+tenants.Prefix) {
				pr.Out.Header.Del("Authorization") // a key of the control API
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			answer.JSON(w, http.StatusBadGateway, map[string]any{
				"sandboxId": rec.ID, "message": "The sandbox is running but port is not open",
				"port": port, "code": http.StatusBadGateway,
			})
		},
	}
	p.ServeHTTP(w, r)
}
