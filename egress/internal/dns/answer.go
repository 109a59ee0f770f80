// Package dns answers the questions of one session: with a made-up address for a name that
// the Decider allows or would ask about, and with a refusal that says why for every other.
//
// Promise: no question leaves the host, and a name has one address for the whole session.
// It resolves nothing, and keeps no addresses itself.
//
// Most readers want [Server.Datagrams].
package dns

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/dnsmsg"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/names"
	"cloister/egress/internal/quota"
	"cloister/egress/internal/refusal"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// A Server answers one session. Every field is required.
type Server struct {
	Decider verdict.Decider
	Names   *names.Names
	Quota   *quota.Counter
	Pins    map[dial.Pin]netip.AddrPort
	Refused func(verdict.Flow) bool // records a refusal of its own
	Log     *slog.Logger
	Wait    time.Duration // for a question of a TCP connection
}

// MaxTCP is the most that a message by TCP holds.
const MaxTCP = 65535

// loopback is a name that exists in every cloister.
const loopback = "localhost"

// Answer makes the answer to one DNS message, or nil where silence is right.
// max is the most bytes the transport takes without EDNS.
func (s *Server) Answer(ctx context.Context, msg []byte, max int) []byte {
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
	return dnsmsg.Build(msg, &q, opt, s.resolveQuestion(ctx, q), limit)
}

// resolveQuestion decides one question.
func (s *Server) resolveQuestion(ctx context.Context, q dnsmessage.Question) dnsmsg.Reply {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	switch {
	case q.Class != dnsmessage.ClassINET:
		return dnsmsg.Reply{RCode: dnsmessage.RCodeRefused}
	case name == gate.Proxy:
		return onlyA(q, gate.Address())
	case name == loopback || strings.HasSuffix(name, "."+loopback): // RFC 6761 6.3
		return onlyA(q, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case strings.HasSuffix(name, ".arpa"):
		return s.reverse(q, name)
	}
	return s.forward(ctx, q, name)
}

func (s *Server) forward(ctx context.Context, q dnsmessage.Question, name string) dnsmsg.Reply {
	kind := strings.TrimPrefix(q.Type.String(), "Type")
	auth, err := authority.Parse(name, 443)
	if err != nil {
		return s.noName(name, kind, err.Error())
	}
	if _, is := auth.Addr(); is {
		return s.noName(name, kind, "an address is no name")
	}
	v := s.Decider.Decide(ctx, verdict.Query{Kind: verdict.Resolve, Authority: auth, Via: verdict.ViaDNS, Detail: kind})
	if !v.Allow && v.Effect != "ask" {
		return refusedName(v)
	}
	if !v.Allow && (v.Rule == "" || v.Rule == verdict.Unlisted) && onlyLocal(auth.Host()) && !s.pinned(auth.Host()) {
		// No one would be asked about a name that only means something on the
		// host's own network; a rule can still allow it by its name.
		return dnsmsg.Reply{RCode: dnsmessage.RCodeNameError, Reason: dnsmsg.Filtered,
			Text: "a name of the local network; " + strings.Join(v.Hints, "; ")}
	}
	if q.Type != dnsmessage.TypeA {
		return dnsmsg.Reply{} // NODATA: no IPv6 detour, no HTTPS record, so no ECH
	}
	if !s.pinned(auth.Host()) {
		if err := s.Quota.Name(auth.Host()); err != nil {
			return s.tooMany(auth, kind, err)
		}
	}
	addr, err := s.Names.Address(auth.Host())
	if err != nil {
		return dnsmsg.Reply{RCode: dnsmessage.RCodeServerFailure, Reason: dnsmsg.NotReady, Text: err.Error()}
	}
	return dnsmsg.Reply{Addr: addr}
}

// tooMany refuses a name by a bound.
func (s *Server) tooMany(auth authority.Authority, kind string, err error) dnsmsg.Reply {
	f := verdict.Flow{Kind: verdict.Resolve, Authority: auth, Via: verdict.ViaDNS, Start: time.Now(), Reason: err.Error()}
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
	}
	f.Detail = kind
	s.Refused(f)
	return dnsmsg.Reply{RCode: dnsmessage.RCodeRefused, Reason: dnsmsg.Prohibited,
		Text: refusal.Explain(verdict.Answer{Reason: f.Reason, Hints: f.Hints})}
}

// noName refuses what no Authority can be made of; the Decider cannot be asked
// about it, so the Journal is notified.
func (s *Server) noName(name, kind, why string) dnsmsg.Reply {
	s.Refused(verdict.Flow{Kind: verdict.Resolve, Via: verdict.ViaDNS, Reason: "not a host name: " + why,
		Detail: dial.Quote(name) + " " + kind, Start: time.Now()})
	return dnsmsg.Reply{RCode: dnsmessage.RCodeNameError, Reason: dnsmsg.Filtered, Text: why}
}

func (s *Server) pinned(host string) bool {
	for key := range s.Pins {
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

func refusedName(v verdict.Answer) dnsmsg.Reply {
	r := dnsmsg.Reply{RCode: dnsmessage.RCodeNameError, Reason: dnsmsg.Prohibited, Text: refusal.Explain(v)}
	if v.Rule != "" && v.Rule != verdict.Unlisted {
		r.Reason = dnsmsg.Blocked
	}
	return r
}

// reverse answers PTR for our own addresses, so that tools which print names
// can; every other reverse question has no answer.
func (s *Server) reverse(q dnsmessage.Question, name string) dnsmsg.Reply {
	none := dnsmsg.Reply{RCode: dnsmessage.RCodeNameError}
	parts := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa"), ".")
	if len(parts) != 4 {
		return none
	}
	addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
	if err != nil {
		return none
	}
	host, ok := s.Names.Name(addr)
	if addr == gate.Address() {
		host, ok = gate.Proxy, true
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
