package egress

import (
	"net/http"
	"slices"
	"strings"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/verdict"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// route finds where the request goes and holds its Host to that.
func (x *exchange) route(proxy bool) error {
	defer func() { x.path = x.recordPath() }()
	if err := x.checkForm(); err != nil {
		return err
	}
	if rest, ok := x.cutScheme(); ok {
		if err := x.absolute(rest, proxy); err != nil {
			return err
		}
	} else {
		if proxy {
			return &verdict.Form{Status: 400, Reason: "a proxy takes http://HOST/PATH or CONNECT; https:// goes through CONNECT"}
		}
		if x.target = x.req.Target; x.target[0] != '/' && (x.target != "*" || x.req.Method != http.MethodOptions) {
			return &verdict.Form{Status: 400, Reason: "a target that is no path"}
		}
	}
	if err := x.checkHost(proxy); err != nil {
		return err
	}
	x.readTarget()
	return nil
}

// readTarget finds the readings of the request: all judge by them.
func (x *exchange) readTarget() {
	x.dropNamed()
	x.http.To, x.http.Method, x.http.Header = x.to, x.req.Method, x.req.Header.All
	if x.http.Body = x.req.Body == wire.Chunked || x.req.Length > 0; x.http.Body {
		x.http.Look = x.look
	}
	x.http.Target(x.target)
	for _, f := range x.req.Header {
		x.http.Note(f.Name, f.Value)
	}
	x.http.Read()
}

// dropNamed takes away at once what Connection names, which is not sent on (RFC
// 9110 7.6.1): it must neither satisfy a rule nor take a field with it that an
// Edit sets.
func (x *exchange) dropNamed() {
	known := []string{"close", "keep-alive", "upgrade", "te"}
	named, kept := x.req.Header.Tokens("Connection"), []string(nil)
	for _, token := range named {
		if slices.Contains(known, token) {
			kept = append(kept, token)
		}
	}
	if len(kept) == len(named) {
		return
	}
	req := *x.req
	req.Header = x.req.Header.Without(func(name string) bool {
		return name == "connection" || slices.Contains(named, name) && !slices.Contains(known, name)
	})
	if len(kept) > 0 {
		req.Header = append(req.Header, wire.Field{Name: "Connection", Value: strings.Join(kept, ", ")})
	}
	x.req = &req
}

// cutScheme cuts the connection's own scheme off an absolute-form target.
func (x *exchange) cutScheme() (string, bool) {
	scheme, target := "http://", x.req.Target
	if x.s.secure {
		scheme = "https://"
	}
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		return "", false
	}
	return target[len(scheme):], true
}

// absolute reads HOST[:PORT]/PATH.
func (x *exchange) absolute(rest string, proxy bool) error {
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if path[0] == '?' {
		path = "/" + path
	}
	if host == "" || strings.Contains(host, "@") {
		return &verdict.Form{Status: 400, Reason: "a target without plain host", Detail: dial.Quote(x.req.Target)}
	}
	to, err := authority.ParseHostPort(host, x.s.defaultPort())
	if err != nil {
		return &verdict.Form{Status: 400, Reason: err.Error()}
	}
	x.target = path
	if proxy {
		if x.via, x.to = ViaHTTP, to; to.Port() == 443 { // as a direct connection is told
			return &verdict.Form{Status: 400, Reason: "http:// at port 443, which takes TLS: https:// goes through CONNECT"}
		}
		x.to, err = x.s.e.named(to)
		if err != nil {
			return &verdict.Form{Status: 403, Reason: err.Error()}
		}
		return nil
	}
	if to != x.to {
		return &verdict.Form{Status: 421, Reason: "the target's host is not the name that was connected to",
			Detail: "target " + dial.Quote(host)}
	}
	return nil
}

// checkHost holds the Host field to the destination. A missing port is the
// connection's: many clients leave it out.
func (x *exchange) checkHost(proxy bool) error {
	got, err := authority.ParseHostPort(x.req.Host, x.to.Port())
	if err != nil {
		return &verdict.Form{Status: 400, Reason: "Host: " + err.Error()}
	}
	if proxy {
		if got, err = x.s.e.named(got); err != nil {
			return &verdict.Form{Status: 403, Reason: err.Error()}
		}
	}
	if got != x.to {
		return &verdict.Form{Status: 421, Reason: "Host is not the name that was connected to",
			Detail: "Host " + dial.Quote(x.req.Host)}
	}
	return nil
}

// checkForm refuses what would make another protocol of this connection, or
// would let a field that we check be dropped further on.
func (x *exchange) checkForm() error {
	h := x.req.Header
	if _, n := h.Get("Upgrade"); n > 0 {
		if err := x.checkUpgrade(); err != nil {
			return err
		}
	}
	if _, n := h.Get("HTTP2-Settings"); n > 0 {
		return &verdict.Form{Status: 400, Reason: "an upgrade to HTTP/2"}
	}
	if x.req.Method == http.MethodConnect {
		return &verdict.Form{Status: 405, Reason: "CONNECT to a server that is no proxy"}
	}
	if x.req.Method == "PRI" {
		return &verdict.Form{Status: 400, Reason: "the HTTP/2 preface"}
	}
	for _, token := range h.Tokens("Connection") {
		switch token {
		case "upgrade":
			if x.upgrade == "" {
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
func (x *exchange) recordPath() string {
	if x.http.BadPath == nil && x.http.Header != nil && x.target != "*" {
		return x.http.Path.Wire()
	}
	path, _, _ := strings.Cut(x.target, "?")
	return path
}
