package egress

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"cloister/internal/authority"
)

const (
	// answerTTL is short because a policy change must show at the next
	// question; an answer costs a program some 50 µs.
	answerTTL = 5
	// ednsSize is what we say we can take: the flag day size that never
	// fragments (dnsflagday.net/2020). minUDP is RFC 1035's.
	ednsSize = 1232
	minUDP   = 512
	maxTCP   = 65535
)

// Extended DNS Errors, RFC 8914, and their option code.
const (
	edeOption     = 15
	edeBlocked    = 15 // a rule of the operator
	edeFiltered   = 17 // no name that could ever be answered here
	edeProhibited = 18 // nobody allowed it
	edeNotReady   = 14
	rcodeBadVers  = dnsmessage.RCode(16)
)

// The names that exist in every cloister.
const (
	proxyName = "proxy.cloister.internal"
	loopback  = "localhost"
)

// gateAddr is where the gate is for a program inside.
func gateAddr() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, 1}) }

// A reply is what to answer to one question.
type reply struct {
	rcode dnsmessage.RCode
	addr  netip.Addr // of an A answer
	ptr   string     // of a PTR answer
	ede   uint16
	text  string
}

// answer makes the answer to one DNS message, or nil where silence is right.
// max is the most bytes the transport takes without EDNS.
func (e *Engine) answer(ctx context.Context, msg []byte, max int) []byte {
	q, opt, err := parseQuestion(msg)
	if errors.Is(err, errNotQuery) {
		return nil
	}
	limit := max
	if opt.present && max == minUDP {
		limit = min(opt.size, ednsSize)
	}
	if err != nil {
		return build(msg, nil, optRecord{}, reply{rcode: dnsmessage.RCodeFormatError}, limit)
	}
	if opt.version != 0 {
		return build(msg, &q, opt, reply{rcode: rcodeBadVers}, limit)
	}
	if msg[2]>>3&0xf != 0 {
		return build(msg, &q, opt, reply{rcode: dnsmessage.RCodeNotImplemented}, limit)
	}
	return build(msg, &q, opt, e.resolveQuestion(ctx, q), limit)
}

// resolveQuestion decides one question.
func (e *Engine) resolveQuestion(ctx context.Context, q dnsmessage.Question) reply {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	switch {
	case q.Class != dnsmessage.ClassINET:
		return reply{rcode: dnsmessage.RCodeRefused}
	case name == proxyName:
		return onlyA(q, gateAddr())
	case name == loopback || strings.HasSuffix(name, "."+loopback): // RFC 6761 6.3
		return onlyA(q, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case strings.HasSuffix(name, ".arpa"):
		return e.reverse(q, name)
	}
	return e.forward(ctx, q, name)
}

func (e *Engine) forward(ctx context.Context, q dnsmessage.Question, name string) reply {
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
		return reply{rcode: dnsmessage.RCodeNameError, ede: edeFiltered,
			text: "a name of the local network; " + strings.Join(v.Hints, "; ")}
	}
	if q.Type != dnsmessage.TypeA {
		return reply{} // NODATA: no IPv6 detour, no HTTPS record, so no ECH
	}
	if !e.pinned(auth.Host()) {
		if err := e.quota.Name(auth.Host()); err != nil {
			return e.tooMany(auth, kind, err)
		}
	}
	addr, err := e.names.Address(auth.Host())
	if err != nil {
		return reply{rcode: dnsmessage.RCodeServerFailure, ede: edeNotReady, text: err.Error()}
	}
	return reply{addr: addr}
}

// tooMany refuses a name by a bound.
func (e *Engine) tooMany(auth authority.Authority, kind string, err error) reply {
	f := Flow{Kind: Resolve, Authority: auth, Via: ViaDNS, Start: time.Now(), Reason: err.Error()}
	if form, ok := errors.AsType[*formError](err); ok {
		f.refused(form)
	}
	f.Detail = kind
	e.refused(f)
	return reply{rcode: dnsmessage.RCodeRefused, ede: edeProhibited,
		text: explain(Verdict{Reason: f.Reason, Hints: f.Hints})}
}

// noName refuses what no Authority can be made of; the Decider cannot be asked
// about it, so the Journal is notified.
func (e *Engine) noName(name, kind, why string) reply {
	e.refused(Flow{Kind: Resolve, Via: ViaDNS, Reason: "not a host name: " + why, Detail: quote(name) + " " + kind,
		Start: time.Now()})
	return reply{rcode: dnsmessage.RCodeNameError, ede: edeFiltered, text: why}
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

func refusedName(v Verdict) reply {
	r := reply{rcode: dnsmessage.RCodeNameError, ede: edeProhibited, text: explain(v)}
	if v.Rule != "" && v.Rule != Unlisted {
		r.ede = edeBlocked
	}
	return r
}

// reverse answers PTR for our own addresses, so that tools which print names
// can; every other reverse question has no answer.
func (e *Engine) reverse(q dnsmessage.Question, name string) reply {
	none := reply{rcode: dnsmessage.RCodeNameError}
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
		return reply{}
	}
	return reply{ptr: host + "."}
}

func onlyA(q dnsmessage.Question, addr netip.Addr) reply {
	if q.Type != dnsmessage.TypeA {
		return reply{}
	}
	return reply{addr: addr}
}

var (
	errNotQuery = errors.New("dns: not a query")
	errQuestion = errors.New("dns: malformed query")
)

// An optRecord is what we read of the EDNS0 record of a query.
type optRecord struct {
	present bool
	size    int
	version uint8
}

// parseQuestion reads the one question of a query. errNotQuery: not even a
// refusal is due. errQuestion: FORMERR is.
func parseQuestion(msg []byte) (dnsmessage.Question, optRecord, error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return dnsmessage.Question{}, optRecord{}, errNotQuery
	}
	qs, err := p.AllQuestions()
	if err != nil || len(qs) != 1 {
		return dnsmessage.Question{}, optRecord{}, errQuestion
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return dnsmessage.Question{}, optRecord{}, errQuestion
	}
	opt, err := parseOPT(&p)
	return qs[0], opt, err
}

func parseOPT(p *dnsmessage.Parser) (optRecord, error) {
	var opt optRecord
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return opt, nil
		}
		if err != nil || (h.Type == dnsmessage.TypeOPT && opt.present) {
			return optRecord{}, errQuestion
		}
		if h.Type == dnsmessage.TypeOPT {
			opt = optRecord{present: true, size: max(int(h.Class), minUDP), version: uint8(h.TTL >> 16)}
		}
		if p.SkipAdditional() != nil {
			return optRecord{}, errQuestion
		}
	}
}

// build packs an answer of at most limit bytes. The text of the error is what
// gives way.
func build(query []byte, q *dnsmessage.Question, opt optRecord, r reply, limit int) []byte {
	out, err := pack(query, q, opt, r)
	if over := len(out) - limit; err == nil && over > 0 && over < len(r.text) {
		r.text = strings.ToValidUTF8(r.text[:len(r.text)-over], "")
		out, err = pack(query, q, opt, r)
	}
	if err != nil || len(out) > limit {
		return nil
	}
	return out
}

func pack(query []byte, q *dnsmessage.Question, opt optRecord, r reply) ([]byte, error) {
	h := dnsmessage.Header{
		ID: uint16(query[0])<<8 | uint16(query[1]), Response: true,
		OpCode: dnsmessage.OpCode(query[2] >> 3 & 0xf), RecursionDesired: query[2]&1 == 1,
		// Go's and glibc's resolvers take an empty answer without this bit for
		// a lame delegation, and ask again.
		RecursionAvailable: true,
		RCode:              r.rcode & 0xf,
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, minUDP), h)
	b.EnableCompression()
	if q == nil {
		return b.Finish()
	}
	err := errors.Join(b.StartQuestions(), b.Question(*q), b.StartAnswers())
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
	switch {
	case r.addr.IsValid():
		err = errors.Join(err, b.AResource(rh, dnsmessage.AResource{A: r.addr.As4()}))
	case r.ptr != "":
		host, nameErr := dnsmessage.NewName(r.ptr)
		err = errors.Join(err, nameErr, b.PTRResource(rh, dnsmessage.PTRResource{PTR: host}))
	}
	if opt.present {
		err = errors.Join(err, b.StartAdditionals(), addOPT(&b, r))
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

func addOPT(b *dnsmessage.Builder, r reply) error {
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(ednsSize, r.rcode, false); err != nil {
		return err
	}
	var o dnsmessage.OPTResource
	if r.ede != 0 {
		data := append([]byte{byte(r.ede >> 8), byte(r.ede)}, r.text...)
		o.Options = []dnsmessage.Option{{Code: edeOption, Data: data}}
	}
	return b.OPTResource(h, o)
}
