// Package egress carries what a cloister sends to the network.
//
// Promise: no byte leaves for a destination that the Decider did not allow by
// its name, and every connection is dialled to an address that was resolved
// and vetted on this side of the wall at that moment. What cannot be read, be
// recorded or be decided is refused, with the reason told in the protocol the
// program speaks: an HTTP response, a TLS alert, a TCP reset, a DNS error.
//
// It does not hold policy (it asks a Decider), does not write the audit (it
// tells a Journal), does not make the gate's sockets (it is handed them), and
// does not open TLS unless the Decider says so (Inspect, Open) or the ClientHello
// has an encrypted one in it: inside a tunnel the bytes are the program's own, so a
// name behind the same TLS server that ignores SNI cannot be told apart there.
//
// What changes in an allowed request is said in one place: a Verdict on a request
// may carry Edits. Each is given the head before anything goes up, may set and
// remove fields, change the query, and put a reader in the place of the body; the
// same for the answer. Edits apply in order on the way up and in the opposite
// order on the way down; rules judge what the program sent, before any of them.
// An Edit that refuses (Refused) is recorded and told like a rule that does, and
// the server sees nothing of a request that is refused before its head.
//
// Most readers want New, then Engine.Serve.
package egress

import (
	"cloister/egress/internal/dial"
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"cloister/egress/internal/redact"
	"cloister/egress/internal/refused"
	"cloister/internal/authority"
	"cloister/internal/budget"
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
	Method, Path string // of a request; Path is for the record, and has no query
	HTTP         *HTTP  // what rules read of a request; nil for all else
	Login        *Login // of a connection whose protocol says who wants what
	Detail       string // free words for the record: "tls sni", "A"
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

// A Verdict is the Decider's answer. The zero Verdict is a deny.
type Verdict struct {
	Allow  bool
	Effect string   // "allow", "ask" or "deny"
	Rule   string   // the rule that spoke, Unlisted when none did
	Place  string   // file:line of that rule, or of the nearest
	Reason string   // one sentence for the person
	Hints  []string // the exact words that would allow it
	// Inspect says that rules read the requests to this destination: TLS is
	// opened, and what is no HTTP is refused. Of a request: its path is sent on
	// as it was judged.
	Inspect bool
	// Open says what becomes of TLS where Inspect does not say it.
	Open Opening
	// Protocol names the one, of those that are read here, by which a connection
	// must say who wants what before anything goes up; it is then asked about
	// once more, with a Login.
	Protocol string
	// Identity is what logs in by SSH, in the words of SSH.Identity; empty for
	// nothing. HostKeys are the server's, where the rule has them.
	Identity string
	HostKeys []string
	// AskFirst says that a person is asked each time that the identity signs.
	AskFirst bool
	// MaxBytes bounds the request's body; 0 is no bound.
	MaxBytes int64
	// Edits change an allowed request, and its answer.
	Edits []Edit
}

// Unlisted is the rule of a verdict by none.
const Unlisted = "unlisted"

// An Opening says what becomes of TLS to a destination whose requests no rule reads.
type Opening int

const (
	// OpenNothing passes TLS on as it is. A ClientHello with an encrypted one in it,
	// which may name another server, is inspected all the same.
	OpenNothing Opening = iota
	// OpenAny ends TLS here. HTTP in it is judged request by request; another
	// protocol is relayed, in TLS on both sides.
	OpenAny
	// OpenHTTP ends TLS here, and relays HTTP only.
	OpenHTTP
)

// A Decider judges. It writes the audit record before it returns; when the
// record cannot be written the answer is a deny. It is called concurrently,
// and but for Resolve may block for as long as ctx lives (a person is asked).
type Decider interface {
	Decide(ctx context.Context, q Query) Verdict
}

// A Flow is what became of one connection or request.
type Flow struct {
	Kind         QueryKind // Connect, Request, or Resolve for a refused question
	Authority    authority.Authority
	Via          string
	Method, Path string
	Status       int            // HTTP status given to the program, 0 if none
	Dialed       netip.AddrPort // zero when nothing was dialled
	Reason       string         // why it was refused or how it ended early; empty for a plain end
	Rule, Place  string         // the bound that refused it, and where it is written; empty for none
	Hints        []string       // the words that would widen it
	Detail       string         // the evidence, such as the other name; may hold hostile bytes, quoted
	Further      uint64         // more like this one that it stands for: datagrams, counted
	Up, Down     int64          // bytes of payload: from the program, to the program
	Start        time.Time
	Duration     time.Duration

	retry time.Duration
}

// A Journal is told what the engine found out by itself.
type Journal interface {
	// Closed tells the end of a connection or request that had been allowed.
	Closed(Flow)
	// Refused tells a refusal for a reason of protocol or of address. The
	// refusal stands whatever it returns; after an error the program gets a
	// bare reset instead of an explanation.
	Refused(Flow) error
}

// A Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver = dial.Resolver

// Addresses gives those that a has and that may be dialled, as an engine with these
// Hosts does: for others that speak with a server for a cloister. An error may be that
// of a forbidden address.
func Addresses(ctx context.Context, hosts map[string]string, ask Resolver, a authority.Authority) ([]netip.Addr, error) {
	return dial.Addresses(ctx, hosts, ask, a)
}

// Forbidden says whether an error is that of an address which no rule opens.
func Forbidden(err error) bool { return dial.Forbidden(err) }

// quote shows hostile bytes in a record: ASCII only, bounded.
func quote(s string) string { return dial.Quote(s) }

// Config is what an Engine needs. Decider and Journal are required.
type Config struct {
	// Session is the cloister's id. Synthetic addresses are derived from it,
	// so the engine of the next guardian gives the same name the same address.
	Session string
	// Names are those that an earlier guardian of this session gave addresses
	// to, in that order: programs may have kept them.
	Names   []string
	Decider Decider
	Journal Journal
	// Hosts says where to dial for a name ("host" or "host:port" → "ip:port"
	// or "ip"): the person's explicit word, and the only way to a loopback or
	// private address. Link-local, multicast and metadata stay forbidden.
	Hosts map[string]string
	// CA signs for servers in connections that are opened. Nil: none can be,
	// and what needs it is refused.
	CA *CA
	// Redact gives what must not reach a program in messages that are read, as of now.
	// Nil: the session has no secrets.
	Redact redact.Values
	// SSH is what reads connections that speak it.
	SSH SSH
	// Roots are the authorities that servers must be signed by. Nil: the host's.
	Roots *x509.CertPool
	// Resolver is asked at connect time. Nil: the host's own.
	Resolver Resolver
	// OriginalDst tells where the program meant to go. Nil: the kernel's
	// SO_ORIGINAL_DST. A gate with its own TCP stack knows it otherwise.
	OriginalDst func(net.Conn) (netip.AddrPort, error)
	// Local serves connections to ports of the gate's own address, which lead
	// nowhere: what is said there is between the program and the guardian.
	Local map[uint16]func(context.Context, net.Conn)
	// Within serves destinations in this process, in the place of a server
	// elsewhere: what goes there is judged and recorded as everywhere. The function
	// takes the connection over, and returns at once.
	Within map[authority.Authority]func(net.Conn)
	Limits Limits
	// Memory is the session's share of what all have for what passes. Nil: no bound.
	Memory *budget.Share
	// Quota bounds what the session does; SetQuota changes it.
	Quota Quota
	// Logger is for the operator. Nil: silent.
	Logger *slog.Logger
}

// Limits bound what one session can hold or wait for. A zero field means its
// default.
type Limits struct {
	Connections int           // open at once; 1024
	Names       int           // distinct names with a synthetic address; 8192
	DNSConns    int           // DNS connections at once, what comes by UDP not counted; 64
	Handshake   time.Duration // for a ClientHello, an HTTP head, a SOCKS greeting; 10 s
	Idle        time.Duration // between two requests, or for a silent new connection; 60 s
	Dial        time.Duration // resolve and connect; 10 s
	HalfClosed  time.Duration // silence after one side has ended; 60 s
}

// Listeners are the gate's sockets. Serve owns them: they are closed when it
// returns.
type Listeners struct {
	TCP    []net.Listener
	DNS    []net.PacketConn // *net.UDPConn answers from the address that was asked
	DNSTCP []net.Listener
	// Refusals is the kernel's log of the datagrams that it refused; nil for none.
	Refusals *refused.Socket
}
