package egress

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/dnsmsg"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/verdict"
	"cloister/internal/authority"
)

// maxTCP is the most that a message by TCP holds.
const maxTCP = 65535

// The names that exist in every cloister.
const (
	proxyName = "proxy.cloister.internal"
	loopback  = "localhost"
)

// gateAddr is where the gate is for a program inside.
func gateAddr() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, 1}) }

// answer makes the answer to one DNS message, or nil where silence is right.
// max is the most bytes the transport takes without EDNS.
func (e *Engine) answer(ctx context.Context, msg []byte, max int) []byte {
	q, opt, err := dnsmsg.Parse(msg)
	if errors.Is(err, dnsmsg.ErrNotQuery) {
		return nil
	}
	limit := max
	if opt.Present && max == dnsmsg.MinUDP {
		limit = min(opt.Size, dnsmsg.Size)
	}
	if err != nil {
		return dnsmsg.Build(msg, nil, dnsmsg.Opt{}, dnsmsg.Reply{RCode: dnsmessage.RCodeFormatError}, limit)
	}
	if opt.Version != 0 {
		return dnsmsg.Build(msg, &q, opt, dnsmsg.Reply{RCode: dnsmsg.BadVersion}, limit)
	}
	if msg[2]>>3&0xf != 0 {
		return dnsmsg.Build(msg, &q, opt, dnsmsg.Reply{RCode: dnsmessage.RCodeNotImplemented}, limit)
	}
	return dnsmsg.Build(msg, &q, opt, e.resolveQuestion(ctx, q), limit)
}

// resolveQuestion decides one question.
func (e *Engine) resolveQuestion(ctx context.Context, q dnsmessage.Question) dnsmsg.Reply {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	switch {
	case q.Class != dnsmessage.ClassINET:
		return dnsmsg.Reply{RCode: dnsmessage.RCodeRefused}
	case name == proxyName:
		return onlyA(q, gateAddr())
	case name == loopback || strings.HasSuffix(name, "."+loopback): // RFC 6761 6.3
		return onlyA(q, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case strings.HasSuffix(name, ".arpa"):
		return e.reverse(q, name)
	}
	return e.forward(ctx, q, name)
}

func (e *Engine) forward(ctx context.Context, q dnsmessage.Question, name string) dnsmsg.Reply {
	kind := strings.TrimPrefix(q.Type.String(), "Type")
	auth, err := authority.Parse(name, 443)
	if err != nil {
		return e.noName(name, kind, err.Error())
	}
	if _, is := auth.Addr(); is {
		return e.noName(name, kind, "an address is no name")
	}
	v := e.cfg.Decider.Decide(ctx, Query{Kind: Resolve, Authority: auth, Via: ViaDNS, Detail: kind})
	if !v.Allow && v.Effect != "ask" {
		return refusedName(v)
	}
	if !v.Allow && (v.Rule == "" || v.Rule == Unlisted) && onlyLocal(auth.Host()) && !e.pinned(auth.Host()) {
		// No one would be asked about a name that only means something on the
		// host's own network; a rule can still allow it by its name.
		return dnsmsg.Reply{RCode: dnsmessage.RCodeNameError, Reason: dnsmsg.Filtered,
			Text: "a name of the local network; " + strings.Join(v.Hints, "; ")}
	}
	if q.Type != dnsmessage.TypeA {
		return dnsmsg.Reply{} // NODATA: no IPv6 detour, no HTTPS record, so no ECH
	}
	if !e.pinned(auth.Host()) {
		if err := e.quota.Name(auth.Host()); err != nil {
			return e.tooMany(auth, kind, err)
		}
	}
	addr, err := e.names.Address(auth.Host())
	if err != nil {
		return dnsmsg.Reply{RCode: dnsmessage.RCodeServerFailure, Reason: dnsmsg.NotReady, Text: err.Error()}
	}
	return dnsmsg.Reply{Addr: addr}
}

// tooMany refuses a name by a bound.
func (e *Engine) tooMany(auth authority.Authority, kind string, err error) dnsmsg.Reply {
	f := Flow{Kind: Resolve, Authority: auth, Via: ViaDNS, Start: time.Now(), Reason: err.Error()}
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
	}
	f.Detail = kind
	e.refused(f)
	return dnsmsg.Reply{RCode: dnsmessage.RCodeRefused, Reason: dnsmsg.Prohibited,
		Text: refusal.Explain(Verdict{Reason: f.Reason, Hints: f.Hints})}
}

// noName refuses what no Authority can be made of; the Decider cannot be asked
// about it, so the Journal is notified.
func (e *Engine) noName(name, kind, why string) dnsmsg.Reply {
	e.refused(Flow{Kind: Resolve, Via: ViaDNS, Reason: "not a host name: " + why, Detail: dial.Quote(name) + " " + kind,
		Start: time.Now()})
	return dnsmsg.Reply{RCode: dnsmessage.RCodeNameError, Reason: dnsmsg.Filtered, Text: why}
}

func (e *Engine) pinned(host string) bool {
	for key := range e.pins {
		if key.Host == host {
			return true
		}
	}
	return false
}

// onlyLocal reports whether a name means something on one network only: a single
// label, or multicast DNS (RFC 6762).
func onlyLocal(host string) bool {
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".local")
}

func refusedName(v Verdict) dnsmsg.Reply {
	r := dnsmsg.Reply{RCode: dnsmessage.RCodeNameError, Reason: dnsmsg.Prohibited, Text: refusal.Explain(v)}
	if v.Rule != "" && v.Rule != Unlisted {
		r.Reason = dnsmsg.Blocked
	}
	return r
}

// reverse answers PTR for our own addresses, so that tools which print names
// can; every other reverse question has no answer.
func (e *Engine) reverse(q dnsmessage.Question, name string) dnsmsg.Reply {
	none := dnsmsg.Reply{RCode: dnsmessage.RCodeNameError}
	parts := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa"), ".")
	if len(parts) != 4 {
		return none
	}
	addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
	if err != nil {
		return none
	}
	host, ok := e.names.Name(addr)
	if addr == gateAddr() {
		host, ok = proxyName, true
	}
	switch {
	case !ok:
		return none
	case q.Type != dnsmessage.TypePTR:
		return dnsmsg.Reply{}
	}
	return dnsmsg.Reply{PTR: host + "."}
}

func onlyA(q dnsmessage.Question, addr netip.Addr) dnsmsg.Reply {
	if q.Type != dnsmessage.TypeA {
		return dnsmsg.Reply{}
	}
	return dnsmsg.Reply{Addr: addr}
}
