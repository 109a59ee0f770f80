package verdict

import (
	"context"
	"strconv"
	"sync"

	"cloister/egress/internal/dial"
	"cloister/internal/authority"
	"cloister/internal/reading"
)

// QueryKind says what is about to happen if the answer is allow.
type QueryKind uint8

const (
	// Resolve: a name was asked of DNS. The port of the Authority means
	// nothing (it is 443); the best effect over all ports is wanted, and at
	// once: the session's next question waits for it.
	Resolve QueryKind = iota
	// Connect: a connection to the Authority is about to be dialled.
	Connect
	// Request: one HTTP request is about to be sent to the Authority. It is
	// asked for every request, also on a connection that was judged already.
	Request
	// Recheck: an open connection is judged again after a policy change. It is
	// not a new action: record it only when the answer is not allow.
	Recheck
)

// String gives the word for logs.
func (k QueryKind) String() string {
	switch k {
	case Resolve:
		return "resolve"
	case Connect:
		return "connect"
	case Request:
		return "request"
	case Recheck:
		return "recheck"
	}
	return "unknown"
}

// How a connection reached the gate: Query.Via and Flow.Via.
const (
	ViaDNS     = "dns"     // a DNS question
	ViaDirect  = "direct"  // the program connected as if there were no wall
	ViaConnect = "connect" // HTTP CONNECT to the explicit proxy
	ViaSOCKS5  = "socks5"  // SOCKS5 to the explicit proxy
	ViaHTTP    = "http"    // absolute-form HTTP to the explicit proxy
	ViaUDP     = "udp"     // datagrams, which the gate refused
)

// A Query is one question to the Decider.
type Query struct {
	Kind         QueryKind
	Authority    authority.Authority
	Via          string
	Method, Path string         // of a request; Path is for the record, and has no query
	HTTP         *HTTP          // what rules read of a request; nil for all else
	Login        *reading.Login // of a connection whose protocol says who wants what
	Detail       string         // free words for the record: "tls sni", "A"
	// Once is where the Decider keeps what a person allowed for this connection
	// only; nil for a DNS question.
	Once *Once
}

// Once is what a person allowed for one connection only. It lives as long as
// the connection, and is safe for use by several goroutines.
type Once struct {
	mu  sync.Mutex
	why map[authority.Authority]string
	// request is the one request that was allowed, where requests are judged.
	request *HTTP
}

// AllowRequest keeps that one request is allowed, until the next is.
func (o *Once) AllowRequest(h *HTTP) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.request = h
}

// RequestAllowed reports whether that very request was allowed.
func (o *Once) RequestAllowed(h *HTTP) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return h != nil && o.request == h
}

// Allow keeps that the destination is allowed, and why.
func (o *Once) Allow(a authority.Authority, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil {
		o.why = map[authority.Authority]string{}
	}
	o.why[a] = why
}

// Allowed reports whether the destination was allowed, and why.
func (o *Once) Allowed(a authority.Authority) (why string, ok bool) {
	if o == nil {
		return "", false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	why, ok = o.why[a]
	return why, ok
}

// HTTP is a request as all who judge it read it.
type HTTP = reading.Request

// A Decider judges. It writes the audit record before it returns; when the
// record cannot be written the answer is a deny. It is called concurrently,
// and but for Resolve may block for as long as ctx lives (a person is asked).
type Decider interface {
	Decide(ctx context.Context, q Query) Answer
}

// LoginDetail is a login for the record, in words.
func LoginDetail(l reading.Login) string {
	words := "user " + strconv.QuoteToASCII(l.User)
	switch {
	case l.Protocol != "ssh":
		words += " database " + strconv.QuoteToASCII(l.Database)
	case l.Command != "":
		words += " runs " + dial.Quote(l.Command)
	}
	return words
}
