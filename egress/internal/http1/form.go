package http1

import (
	"net/http"
	"slices"
	"strings"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// A routing finds where a request of HTTP/1 goes.
type routing struct {
	x     *exchange
	proxy bool // the program speaks to the explicit proxy
}

// find finds where the request goes and holds its Host to that.
func (r routing) find() error {
	defer func() { r.x.Path = r.recordPath() }()
	if err := r.checkForm(); err != nil {
		return err
	}
	if rest, ok := r.cutScheme(); ok {
		if err := r.absolute(rest); err != nil {
			return err
		}
	} else {
		if r.proxy {
			return &verdict.Form{Status: 400, Reason: "a proxy takes http://HOST/PATH or CONNECT; https:// goes through CONNECT"}
		}
		if r.x.target = r.x.req.Target; r.x.target[0] != '/' && (r.x.target != "*" || r.x.req.Method != http.MethodOptions) {
			return &verdict.Form{Status: 400, Reason: "a target that is no path"}
		}
	}
	if err := r.checkHost(); err != nil {
		return err
	}
	r.read()
	return nil
}

// read finds the readings of the request: all judge by them.
func (r routing) read() {
	r.dropNamed()
	r.x.HTTP.To, r.x.HTTP.Method, r.x.HTTP.Header = r.x.To, r.x.req.Method, r.x.req.Header.All
	if r.x.HTTP.Body = r.x.req.Body == wire.Chunked || r.x.req.Length > 0; r.x.HTTP.Body {
		r.x.HTTP.Look = r.x.look
	}
	r.x.HTTP.Target(r.x.target)
	for _, f := range r.x.req.Header {
		r.x.HTTP.Note(f.Name, f.Value)
	}
	r.x.HTTP.Read()
}

// dropNamed takes away at once what Connection names, which is not sent on (RFC
// 9110 7.6.1): it must neither satisfy a rule nor take a field with it that an
// Edit sets.
func (r routing) dropNamed() {
	known := []string{"close", "keep-alive", "upgrade", "te"}
	named, kept := r.x.req.Header.Tokens("Connection"), []string(nil)
	for _, token := range named {
		if slices.Contains(known, token) {
			kept = append(kept, token)
		}
	}
	if len(kept) == len(named) {
		return
	}
	req := *r.x.req
	req.Header = r.x.req.Header.Without(func(name string) bool {
		return name == "connection" || slices.Contains(named, name) && !slices.Contains(known, name)
	})
	if len(kept) > 0 {
		req.Header = append(req.Header, wire.Field{Name: "Connection", Value: strings.Join(kept, ", ")})
	}
	r.x.req = &req
}

// cutScheme cuts the connection's own scheme off an absolute-form target.
func (r routing) cutScheme() (string, bool) {
	scheme, target := "http://", r.x.req.Target
	if r.x.Stream.Server.Secure {
		scheme = "https://"
	}
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		return "", false
	}
	return target[len(scheme):], true
}

// absolute reads HOST[:PORT]/PATH.
func (r routing) absolute(rest string) error {
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if path[0] == '?' {
		path = "/" + path
	}
	if host == "" || strings.Contains(host, "@") {
		return &verdict.Form{Status: 400, Reason: "a target without plain host", Detail: dial.Quote(r.x.req.Target)}
	}
	to, err := authority.ParseHostPort(host, r.x.Stream.Server.DefaultPort())
	if err != nil {
		return &verdict.Form{Status: 400, Reason: err.Error()}
	}
	r.x.target = path
	if r.proxy {
		if r.x.Via, r.x.To = verdict.ViaHTTP, to; to.Port() == 443 { // as for a direct connection
			return &verdict.Form{Status: 400, Reason: "http:// at port 443, which takes TLS: https:// goes through CONNECT"}
		}
		r.x.To, err = r.x.Stream.Session.Named(to)
		if err != nil {
			return &verdict.Form{Status: 403, Reason: err.Error()}
		}
		return nil
	}
	if to != r.x.To {
		return &verdict.Form{Status: 421, Reason: "the target's host is not the name that was connected to",
			Detail: "target " + dial.Quote(host)}
	}
	return nil
}

// checkHost holds the Host field to the destination. A missing port is the
// connection's: many clients leave it out.
func (r routing) checkHost() error {
	got, err := authority.ParseHostPort(r.x.req.Host, r.x.To.Port())
	if err != nil {
		return &verdict.Form{Status: 400, Reason: "Host: " + err.Error()}
	}
	if r.proxy {
		if got, err = r.x.Stream.Session.Named(got); err != nil {
			return &verdict.Form{Status: 403, Reason: err.Error()}
		}
	}
	if got != r.x.To {
		return &verdict.Form{Status: 421, Reason: "Host is not the name that was connected to",
			Detail: "Host " + dial.Quote(r.x.req.Host)}
	}
	return nil
}

// checkForm refuses what would make another protocol of this connection, or
// would let a field that we check be dropped further on.
func (r routing) checkForm() error {
	h := r.x.req.Header
	if _, n := h.Get("Upgrade"); n > 0 {
		if err := (webSocket{r.x}).check(); err != nil {
			return err
		}
	}
	if _, n := h.Get("HTTP2-Settings"); n > 0 {
		return &verdict.Form{Status: 400, Reason: "an upgrade to HTTP/2"}
	}
	if r.x.req.Method == http.MethodConnect {
		return &verdict.Form{Status: 405, Reason: "CONNECT to a server that is no proxy"}
	}
	if r.x.req.Method == "PRI" {
		return &verdict.Form{Status: 400, Reason: "the HTTP/2 preface"}
	}
	for _, token := range h.Tokens("Connection") {
		switch token {
		case "upgrade":
			if r.x.upgrade == "" {
				return &verdict.Form{Status: 400, Reason: "Connection names the field upgrade"}
			}
		case "host", "content-length", "transfer-encoding", "authorization", "cookie":
			return &verdict.Form{Status: 400, Reason: "Connection names the field " + token}
		}
	}
	for _, token := range h.Tokens("Expect") {
		if token != "100-continue" {
			return &verdict.Form{Status: 417, Reason: "an expectation other than 100-continue"}
		}
	}
	return nil
}

// recordPath is the request's path for the record: without the query, which may
// carry secrets.
func (r routing) recordPath() string {
	if r.x.HTTP.BadPath == nil && r.x.HTTP.Header != nil && r.x.target != "*" {
		return r.x.HTTP.Path.Wire()
	}
	path, _, _ := strings.Cut(r.x.target, "?")
	return path
}
