package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"cloister/internal/authority"
)

// hostLit is a Host::"…" of a policy: "name", "*.name", "*", an address, each
// with or without a port. Port 0 is every port.
type hostLit struct {
	pattern authority.Pattern
	port    uint16
}

func parseHostLit(s string) (hostLit, error) {
	if _, err := netip.ParsePrefix(s); err == nil {
		return hostLit{}, fmt.Errorf("host %q is a range; write: context has ip && context.ip.isInRange(ip(%q))", s, s)
	}
	host, port := s, ""
	switch {
	case strings.HasPrefix(s, "["):
		inner, rest, ok := strings.Cut(s[1:], "]")
		if !ok || !strings.Contains(inner, ":") || rest != "" && rest[0] != ':' {
			return hostLit{}, fmt.Errorf("host %q: brackets are for an IPv6 address, a port may follow", s)
		}
		host, port = inner, rest
	case strings.Count(s, ":") == 1:
		i := strings.IndexByte(s, ':')
		host, port = s[:i], s[i:]
	}
	lit := hostLit{}
	var err error
	if port != "" {
		if lit.port, err = authority.ParsePort(port[1:]); err != nil {
			return hostLit{}, fmt.Errorf("host %q: %w", s, err)
		}
	}
	lit.pattern, err = authority.ParseBroadPattern(host)
	if err != nil && host == "" {
		err = errors.New("host is empty")
	}
	return lit, err
}

// uid is the one entity that stands for the literal, however it was spelled.
func (h hostLit) uid() types.EntityUID {
	id := h.pattern.String()
	if h.port != 0 {
		if strings.Contains(id, ":") {
			id = "[" + id + "]"
		}
		id += ":" + strconv.Itoa(int(h.port))
	}
	return types.NewEntityUID("Host", types.String(id))
}

func (h hostLit) atPort(p uint16) bool { return h.port == 0 || h.port == p }

// hostIndex finds the literals that a destination is "in".
type hostIndex struct {
	exact, below map[string][]hostLit
	every        []hostLit
}

func newHostIndex() *hostIndex {
	return &hostIndex{exact: map[string][]hostLit{}, below: map[string][]hostLit{}}
}

func (ix *hostIndex) add(h hostLit) {
	switch base := h.pattern.Base(); {
	case !h.pattern.Wildcard():
		ix.exact[base] = append(ix.exact[base], h)
	case base == "":
		ix.every = append(ix.every, h)
	default:
		ix.below[base] = append(ix.below[base], h)
	}
}

func (ix *hostIndex) matching(a authority.Authority) []types.EntityUID {
	var out []types.EntityUID
	take := func(lits []hostLit) {
		for _, h := range lits {
			if h.atPort(a.Port()) {
				out = append(out, h.uid())
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
