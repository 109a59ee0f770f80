// Package dial makes the connections to servers.
//
// Promise: what is dialled is an address that was resolved and vetted at that moment,
// and a server that is spoken TLS with has proved its name. The words of an error go
// to the program inside: they name the step that failed, and no address of the host's
// network.
//
// It does not decide which destination is allowed.
//
// Most readers want Dialer.Dial and TLS.Handshake.
package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"cloister/egress/internal/guard"
	"cloister/egress/internal/sock"
	"cloister/internal/authority"
)

// A Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// HostResolver is the host's own resolver, kept from its search domains by the
// root's dot.
type HostResolver struct{}

// LookupNetIP is of the host.
func (HostResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return (&net.Resolver{}).LookupNetIP(ctx, network, host+".")
}

// A Dialer makes connections to vetted addresses only.
type Dialer struct {
	Guard    guard.Guard
	Pins     map[Pin]netip.AddrPort
	Resolver Resolver
	Timeout  time.Duration
	Within   map[authority.Authority]func(net.Conn)
	Budget   func(host string) error // before a name is asked of the resolver; nil for none
}

// A Error is a connection that could not be made. Its words go to the
// program inside, so they name the step that failed, but no address or server
// of the host's network.
type Error struct {
	Status int // for HTTP
	Words  string
	Hints  []string
	Err    error // for the operator
}

// Error is what the program receives.
func (e *Error) Error() string { return e.Words }

// Unwrap is what the operator reads.
func (e *Error) Unwrap() error { return e.Err }

// Addresses gives those that a has and that may be dialled, as an engine with these
// Hosts does: for others that speak with a server for a cloister. ask resolves
// names; an error may be that of a forbidden address.
func Addresses(ctx context.Context, hosts map[string]string, ask Resolver,
	a authority.Authority) ([]netip.Addr, error) {
	g := guard.New()
	pins, err := ParsePins(hosts, g)
	if err != nil {
		return nil, err
	}
	to, _, err := (&Dialer{Guard: g, Pins: pins, Resolver: ask}).targets(ctx, a)
	addrs := make([]netip.Addr, 0, len(to))
	for _, ap := range to {
		addrs = append(addrs, ap.Addr())
	}
	return addrs, err
}

// Dial resolves and connects to a. A *guard.Forbidden means that it had no
// address which may be dialled.
func (d *Dialer) Dial(ctx context.Context, a authority.Authority) (*net.TCPConn, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if serve := d.Within[a]; serve != nil {
		return within(ctx, serve)
	}
	to, pinned, err := d.targets(ctx, a)
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	var last error
	for i, ap := range to {
		// As net.Dialer: what is left is shared by the addresses that are left.
		c, err := d.one(ctx, ap, pinned, len(to)-i)
		if err == nil {
			return c, ap, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, netip.AddrPort{}, describe(a, last)
}

// targets gives the vetted addresses of a. Forbidden ones are dropped; when
// nothing is left the last of them is the error.
func (d *Dialer) targets(ctx context.Context, a authority.Authority) (to []netip.AddrPort, pinned bool, err error) {
	if ap, ok := d.pin(a); ok {
		return []netip.AddrPort{ap}, true, d.Guard.Check(ap.Addr(), true)
	}
	addrs := make([]netip.Addr, 0, 4)
	if addr, ok := a.Addr(); ok {
		addrs = append(addrs, addr)
	} else if err = d.allowed(a.Host()); err != nil {
		return nil, false, err
	} else if addrs, err = d.Resolver.LookupNetIP(ctx, "ip", a.Host()); err != nil {
		return nil, false, describeLookup(a, err)
	}
	var forbidden error
	for _, addr := range addrs {
		if err := d.Guard.Check(addr, false); err != nil {
			forbidden = err
			continue
		}
		to = append(to, netip.AddrPortFrom(addr.Unmap(), a.Port()))
	}
	switch {
	case len(to) > 0:
		return to, false, nil
	case forbidden != nil:
		return nil, false, forbidden
	}
	return nil, false, &Error{Status: 502, Words: a.Host() + " has no address"}
}

// allowed reports whether a name may be asked of the resolver.
func (d *Dialer) allowed(host string) error {
	if d.Budget == nil {
		return nil
	}
	return d.Budget(host)
}

func (d *Dialer) pin(a authority.Authority) (netip.AddrPort, bool) {
	for _, k := range []Pin{{a.Host(), a.Port()}, {a.Host(), 0}} {
		if ap, ok := d.Pins[k]; ok {
			if ap.Port() == 0 {
				ap = netip.AddrPortFrom(ap.Addr(), a.Port())
			}
			return ap, true
		}
	}
	return netip.AddrPort{}, false
}

func (d *Dialer) one(ctx context.Context, ap netip.AddrPort, pinned bool, left int) (*net.TCPConn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), 2*time.Second)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	nd := net.Dialer{
		KeepAliveConfig: KeepAlive(),
		// The last word before connect(2): what the kernel is about to be
		// given is what was vetted.
		Control: func(_, address string, raw syscall.RawConn) error {
			got, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if got != ap {
				return &guard.Forbidden{Addr: got.Addr(), What: "not the address that was vetted"}
			}
			sock.UnpacedTo(got.Addr(), raw)
			return d.Guard.Check(got.Addr(), pinned)
		},
	}
	c, err := nd.DialContext(ctx, "tcp", ap.String())
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(errors.New("dial: no TCP connection"), c.Close())
	}
	return tcp, nil
}

// KeepAlive finds a dead peer in about a minute.
func KeepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}
}

func describe(a authority.Authority, err error) error {
	if forbidden, ok := errors.AsType[*guard.Forbidden](err); ok {
		return forbidden
	}
	e := &Error{Status: 502, Words: "connect to " + a.String() + ": failed", Err: err}
	switch {
	case errors.Is(err, context.DeadlineExceeded), IsTimeout(err):
		e.Status, e.Words = 504, "connect to "+a.String()+": timed out"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Words = "connect to " + a.String() + ": connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		e.Words = "connect to " + a.String() + ": unreachable"
	}
	return e
}

func describeLookup(a authority.Authority, err error) error {
	e := &Error{Status: 502, Words: "look up " + a.Host() + ": failed", Err: err}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		e.Words = "look up " + a.Host() + ": no such name"
	} else if errors.Is(err, context.DeadlineExceeded) || IsTimeout(err) {
		e.Status, e.Words = 504, "look up "+a.Host()+": timed out"
	}
	return e
}

// IsTimeout reports whether something took too long.
func IsTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

// IsGone reports whether the peer closed or reset its connection.
func IsGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Quote shows hostile bytes in a record: ASCII only, bounded.
func Quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strings.Trim(fmt.Sprintf("%+q", s), `"`)
}

// Forbidden reports whether an error is that of an address which no rule opens.
func Forbidden(err error) bool {
	_, is := errors.AsType[*guard.Forbidden](err)
	return is
}
