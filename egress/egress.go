// Package egress carries what a cloister sends to the network.
//
// Promise: no byte leaves for a destination that the Decider did not allow by
// its name, and every connection is dialled to an address that was resolved
// and vetted on this side of the wall at that moment. What cannot be read, be
// recorded or be decided is refused, with the reason given in the protocol the
// program speaks: an HTTP response, a TLS alert, a TCP reset, a DNS error.
//
// It does not hold policy (it asks a Decider), does not write the audit (it
// tells a Journal), does not make the gate's sockets (it is handed them), and
// does not open TLS unless the Decider says so (Inspect, Open) or the ClientHello
// has an encrypted one in it: inside a tunnel the bytes are the program's own, so a
// name behind the same TLS server that ignores SNI cannot be distinguished there.
//
// What changes in an allowed request is said in one place: an Answer about a request
// may carry Edits. Each is given the head before anything goes up, may set and
// remove fields, change the query, and put a reader in the place of the body; the
// same for the answer. Edits apply in order on the way up and in the opposite
// order on the way down; rules judge what the program sent, before any of them.
// An Edit that refuses (Refused) is recorded and answered like a rule that does, and
// the server sees nothing of a request that is refused before its head.
//
// Most readers want New, then Engine.Serve.
package egress

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"net/netip"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/stream"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// A Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver = dial.Resolver

// Addresses gives those that a has and that may be dialled, as an engine with these
// Hosts does: for others that speak with a server for a cloister. An error may be that
// of a forbidden address.
func Addresses(ctx context.Context, hosts map[string]string, ask Resolver, a authority.Authority) (
	[]netip.Addr, error) {
	return dial.Addresses(ctx, hosts, ask, a)
}

// Forbidden reports whether an error is that of an address which no rule opens.
func Forbidden(err error) bool { return dial.Forbidden(err) }

// Config is what an Engine needs. Decider and Journal are required.
type Config struct {
	// Session is the cloister's id. Synthetic addresses are derived from it,
	// so the engine of the next guardian gives the same name the same address.
	Session string
	// Names are those that an earlier guardian of this session gave addresses
	// to, in that order: programs may have kept them.
	Names   []string
	Decider verdict.Decider
	Journal verdict.Journal
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

// Limits bound what one session can hold or wait for.
type Limits = stream.Limits

// Listeners are the gate's sockets. Serve owns them: they are closed when it
// returns.
type Listeners = gate.Listeners
