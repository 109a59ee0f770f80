// Package dnsmsg reads one question of DNS from a message, and writes the answer to it.
//
// Promise: what is read is one whole question and no answer; what is written fits where
// it goes, and gives up the text of a reason rather than more.
//
// It resolves nothing and opens no socket.
//
// Most readers want [Parse] and [Build].
package dnsmsg

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// answerTTL is short because a policy change must show at the next
	// question; an answer costs a program some 50 µs.
	answerTTL = 5
	// Size is what we say we can take: the flag day size that never
	// fragments (dnsflagday.net/2020). MinUDP is RFC 1035's.
	Size   = 1232
	MinUDP = 512
)

// Extended DNS Errors, RFC 8914, and their option code.
const (
	edeOption  = 15
	Blocked    = 15 // a rule of the operator
	Filtered   = 17 // no name that could ever be answered here
	Prohibited = 18 // no policy allowed it
	NotReady   = 14
)

// BadVersion is the answer to a version of EDNS that is not known.
const BadVersion = dnsmessage.RCode(16)

// A Reply is what to answer to one question.
type Reply struct {
	RCode  dnsmessage.RCode
	Addr   netip.Addr // of an A answer
	PTR    string     // of a PTR answer
	Reason uint16     // an Extended DNS Error
	Text   string     // of that
}

// ErrNotQuery says that a message is no question: no answer is due.
var (
	ErrNotQuery = errors.New("dns: not a query")
	errQuestion = errors.New("dns: malformed query")
)

// An Opt is what we read of the EDNS0 record of a query.
type Opt struct {
	Present bool
	Size    int
	Version uint8
}

// Parse reads the one question of a query. ErrNotQuery: not even a
// refusal is due. errQuestion: FORMERR is.
func Parse(msg []byte) (dnsmessage.Question, Opt, error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return dnsmessage.Question{}, Opt{}, ErrNotQuery
	}
	qs, err := p.AllQuestions()
	if err != nil || len(qs) != 1 {
		return dnsmessage.Question{}, Opt{}, errQuestion
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return dnsmessage.Question{}, Opt{}, errQuestion
	}
	opt, err := parseOPT(&p)
	return qs[0], opt, err
}

func parseOPT(p *dnsmessage.Parser) (Opt, error) {
	var opt Opt
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return opt, nil
		}
		if err != nil || (h.Type == dnsmessage.TypeOPT && opt.Present) {
			return Opt{}, errQuestion
		}
		if h.Type == dnsmessage.TypeOPT {
			opt = Opt{Present: true, Size: max(int(h.Class), MinUDP), Version: uint8(h.TTL >> 16)}
		}
		if p.SkipAdditional() != nil {
			return Opt{}, errQuestion
		}
	}
}

// Build packs an answer of at most limit bytes. The text of the error is what
// gives way.
func Build(query []byte, q *dnsmessage.Question, opt Opt, r Reply, limit int) []byte {
	out, err := pack(query, q, opt, r)
	if over := len(out) - limit; err == nil && over > 0 && over < len(r.Text) {
		r.Text = strings.ToValidUTF8(r.Text[:len(r.Text)-over], "")
		out, err = pack(query, q, opt, r)
	}
	if err != nil || len(out) > limit {
		return nil
	}
	return out
}

func pack(query []byte, q *dnsmessage.Question, opt Opt, r Reply) ([]byte, error) {
	h := dnsmessage.Header{
		ID: uint16(query[0])<<8 | uint16(query[1]), Response: true,
		OpCode: dnsmessage.OpCode(query[2] >> 3 & 0xf), RecursionDesired: query[2]&1 == 1,
		// Go's and glibc's resolvers take an empty answer without this bit for
		// a lame delegation, and ask again.
		RecursionAvailable: true,
		RCode:              r.RCode & 0xf,
	}
	b := dnsmessage.NewBuilder(make([]byte, 0, MinUDP), h)
	b.EnableCompression()
	if q == nil {
		return b.Finish()
	}
	err := errors.Join(b.StartQuestions(), b.Question(*q), b.StartAnswers())
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerTTL}
	switch {
	case r.Addr.IsValid():
		err = errors.Join(err, b.AResource(rh, dnsmessage.AResource{A: r.Addr.As4()}))
	case r.PTR != "":
		host, nameErr := dnsmessage.NewName(r.PTR)
		err = errors.Join(err, nameErr, b.PTRResource(rh, dnsmessage.PTRResource{PTR: host}))
	}
	if opt.Present {
		err = errors.Join(err, b.StartAdditionals(), addOPT(&b, r))
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

func addOPT(b *dnsmessage.Builder, r Reply) error {
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(Size, r.RCode, false); err != nil {
		return err
	}
	var o dnsmessage.OPTResource
	if r.Reason != 0 {
		data := append([]byte{byte(r.Reason >> 8), byte(r.Reason)}, r.Text...)
		o.Options = []dnsmessage.Option{{Code: edeOption, Data: data}}
	}
	return b.OPTResource(h, o)
}
