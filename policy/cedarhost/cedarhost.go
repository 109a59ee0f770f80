// Package cedarhost reads the hosts that Cedar policies name, and finds those that a
// destination is in.
//
// It promises that a host has one entity, however it was spelled, so that a rule for a name
// holds for each spelling of it. It judges nothing.
//
// Most readers want [Parse] and [Index].
package cedarhost

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"cloister/internal/authority"
)

// Literal is a Host::"…" of a policy: "name", "*.name", "*", an address, each
// with or without a port. Port 0 is every port.
type Literal struct {
	Pattern authority.Pattern
	Port    uint16
}

// Parse reads a literal.
func Parse(s string) (Literal, error) {
	if _, err := netip.ParsePrefix(s); err == nil {
		return Literal{}, fmt.Errorf("host %q is a range; write: context has ip && context.ip.isInRange(ip(%q))", s, s)
	}
	host, port := s, ""
	switch {
	case strings.HasPrefix(s, "["):
		inner, rest, ok := strings.Cut(s[1:], "]")
		if !ok || !strings.Contains(inner, ":") || rest != "" && rest[0] != ':' {
			return Literal{}, fmt.Errorf("host %q: brackets are for an IPv6 address, a port may follow", s)
		}
		host, port = inner, rest
	case strings.Count(s, ":") == 1:
		i := strings.IndexByte(s, ':')
		host, port = s[:i], s[i:]
	}
	lit := Literal{}
	var err error
	if port != "" {
		if lit.Port, err = authority.ParsePort(port[1:]); err != nil {
			return Literal{}, fmt.Errorf("host %q: %w", s, err)
		}
	}
	lit.Pattern, err = authority.ParseBroadPattern(host)
	if err != nil && host == "" {
		err = errors.New("host is empty")
	}
	return lit, err
}

// UID is the one entity that stands for the literal, however it was spelled.
func (h Literal) UID() types.EntityUID {
	id := h.Pattern.String()
	if h.Port != 0 {
		if strings.Contains(id, ":") {
			id = "[" + id + "]"
		}
		id += ":" + strconv.Itoa(int(h.Port))
	}
	return types.NewEntityUID("Host", types.String(id))
}

// AtPort reports whether the literal holds for a port.
func (h Literal) AtPort(p uint16) bool { return h.Port == 0 || h.Port == p }

// Index finds the literals that a destination is "in".
type Index struct {
	exact, below map[string][]Literal
	every        []Literal
}

// NewIndex is an index without literals.
func NewIndex() *Index {
	return &Index{exact: map[string][]Literal{}, below: map[string][]Literal{}}
}

// Add adds a literal.
func (ix *Index) Add(h Literal) {
	switch base := h.Pattern.Base(); {
	case !h.Pattern.Wildcard():
		ix.exact[base] = append(ix.exact[base], h)
	case base == "":
		ix.every = append(ix.every, h)
	default:
		ix.below[base] = append(ix.below[base], h)
	}
}

// Matching are the entities that a destination is in.
func (ix *Index) Matching(a authority.Authority) []types.EntityUID {
	var out []types.EntityUID
	take := func(lits []Literal) {
		for _, h := range lits {
			if h.AtPort(a.Port()) {
				out = append(out, h.UID())
			}
		}
	}
	host := a.Host()
	take(ix.every)
	take(ix.exact[host])
	if _, isAddr := a.Addr(); isAddr {
		return out
	}
	for {
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return out
		}
		host = host[i+1:]
		take(ix.below[host])
	}
}
