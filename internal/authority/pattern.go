package authority

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Pattern is a set of hosts as a rule names it: one host, or every name below
// a domain. It is comparable; the zero value matches nothing.
type Pattern struct {
	base string // canonical; "" with below set means every host
	kind kind
}

type kind uint8

const (
	none  kind = iota
	exact      // base itself
	below      // any depth below base, not base
	every      // every name, every address
)

// ParsePattern parses what a rule that widens may say: an exact name or
// address, or "*.example.com" (any depth below, not example.com itself).
// Refused with a reason: "*", a wildcard over one label or over a public
// suffix (*.com, *.co.uk), a star anywhere else, a scheme, a path, a port.
func ParsePattern(s string) (Pattern, error) {
	p, err := ParseBroadPattern(s)
	if err != nil {
		return Pattern{}, err
	}
	switch {
	case p.kind == every:
		return Pattern{}, fmt.Errorf("pattern %s: too broad, it would match every host", quote(s))
	case p.kind == below && !strings.Contains(p.base, "."):
		return Pattern{}, fmt.Errorf("pattern %s: too broad, it would match every name under .%s", quote(s), p.base)
	case p.kind == below && isPublicSuffix(p.base):
		return Pattern{}, fmt.Errorf("pattern %s: too broad, anybody can register a name under .%s", quote(s), p.base)
	}
	return p, nil
}

// ParseBroadPattern parses the same grammar without the limit on breadth, for
// rules that only narrow (a deny of *.zip).
func ParseBroadPattern(s string) (Pattern, error) {
	if s == "*" {
		return Pattern{kind: every}, nil
	}
	p, err := parsePattern(s)
	if err != nil {
		return Pattern{}, fmt.Errorf("pattern %s: %w", quote(s), err)
	}
	return p, nil
}

func parsePattern(s string) (Pattern, error) {
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		return Pattern{}, fmt.Errorf("has the scheme %s; write the host alone: %s", quote(scheme), quote(host))
	}
	if strings.HasPrefix(s, ".") {
		return Pattern{}, fmt.Errorf("starts with a dot; every name below is written %s", quote("*"+s))
	}
	rest, wild := strings.CutPrefix(s, "*.")
	switch {
	case strings.Contains(rest, "*"):
		return Pattern{}, errors.New("a star stands only for whole labels at the front: *.example.com")
	case strings.ContainsAny(rest, "/?#@"):
		return Pattern{}, errors.New("a domain has no path, query or user")
	}
	base, addr, err := canonical(rest)
	switch {
	case err != nil && strings.Count(rest, ":") == 1:
		return Pattern{}, errors.New("has a port, which belongs in the rule's ports")
	case err != nil:
		return Pattern{}, err
	case !wild:
		return Pattern{base: base, kind: exact}, nil
	case addr.IsValid():
		return Pattern{}, errors.New("an address has nothing below it; a range is written as a cidr")
	case len(base) > maxName-2:
		return Pattern{}, fmt.Errorf("longer than %d bytes", maxName)
	}
	return Pattern{base: base, kind: below}, nil
}

// isPublicSuffix knows the registries' part of the list only: hosting domains
// on its private part (github.io) are names that people do write in policies.
func isPublicSuffix(name string) bool {
	suffix, icann := publicsuffix.PublicSuffix(name)
	return icann && suffix == name
}

// Shared says that many people have names below name, or that name is one of those
// that stand below: a public suffix, or a hosting domain on the private part of the
// list (github.io, s3.amazonaws.com). A wildcard there, or one level above, is offered
// to no one.
func Shared(name string) bool {
	suffix, _ := publicsuffix.PublicSuffix(name)
	return suffix == name
}

// Shared says that the pattern holds names of many people.
func (p Pattern) Shared() bool { return p.kind == every || p.kind == below && Shared(p.base) }

// Site is the name that someone registered and that the host belongs to, the private
// part of the list counted (a.github.io is one of its own); the host itself where there
// is none.
func (a Authority) Site() string {
	if a.addr.IsValid() {
		return a.host
	}
	if site, err := publicsuffix.EffectiveTLDPlusOne(a.host); err == nil {
		return site
	}
	return a.host
}

// Match reports whether host, in any spelling Parse takes, is in the set. What
// Parse refuses matches nothing.
func (p Pattern) Match(host string) bool {
	name, addr, err := canonical(host)
	if err != nil {
		return false
	}
	switch p.kind {
	case exact:
		return name == p.base
	case below:
		return !addr.IsValid() && len(name) > len(p.base)+1 &&
			strings.HasSuffix(name, p.base) && name[len(name)-len(p.base)-1] == '.'
	case every:
		return true
	case none:
	}
	return false
}

// Base is the canonical host of an exact pattern, the domain above the star of
// a wildcard, "" for "*".
func (p Pattern) Base() string { return p.base }

// Wildcard reports whether the pattern is "*" or "*.base".
func (p Pattern) Wildcard() bool { return p.kind == below || p.kind == every }

// String is the canonical spelling, "" for the zero value.
func (p Pattern) String() string {
	switch p.kind {
	case exact:
		return p.base
	case below:
		return "*." + p.base
	case every:
		return "*"
	case none:
	}
	return ""
}
