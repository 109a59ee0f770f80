package sessionctx

import (
	"errors"
	"fmt"
	"strings"

	"cloister/approval"
	"cloister/internal/authority"
)

// Wildcard is the next wider set of names, where a rule may name it.
func Wildcard(a authority.Authority) string {
	if _, isAddr := a.Addr(); isAddr {
		return ""
	}
	_, parent, ok := strings.Cut(a.Host(), ".")
	if !ok || authority.Shared(parent) || authority.Shared(a.Host()) {
		return "" // any person can have a name there
	}
	p, err := authority.ParsePattern("*." + parent)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s:%d", p, a.Port())
}

// Widened is the subject of an answer for more than what was asked.
func Widened(pattern string, i approval.Item, allow bool) (string, error) {
	if i.Kind != approval.Network {
		return "", errors.New("a pattern is for destinations")
	}
	asked, err := authority.ParseHostPort(i.Subject, 0)
	if err != nil {
		return "", err
	}
	host := pattern
	if rest, port, ok := strings.Cut(pattern, ":"); ok {
		if port != fmt.Sprint(asked.Port()) {
			return "", fmt.Errorf("pattern %q is not for port %d, which was asked for", pattern, asked.Port())
		}
		host = rest
	}
	p, err := authority.ParsePattern(host)
	if err != nil {
		return "", err
	}
	if !p.Match(asked.Host()) {
		return "", fmt.Errorf("pattern %q does not hold %s, which was asked for", pattern, asked.Host())
	}
	if allow && p.Shared() {
		return "", fmt.Errorf("pattern %q holds names of many people: anybody can have one below %s; answer for the "+
			"name itself", pattern, p.Base())
	}
	return fmt.Sprintf("%s:%d", p, asked.Port()), nil
}
