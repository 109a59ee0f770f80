// Package narrow is what a request takes away of a sandbox's network, as statements that forbid.
//
// The promise: what it writes can only forbid, and no destination of a client's ends its statement:
// the text is Cedar whose strings [IsDestination] has let through. It judges nothing.
//
// Most readers want [Network].
package narrow

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cloister/policy/destination"
)

// longest bounds one destination.
const longest = 300

// IsEverything reports whether a destination is a way to write all of them: ::0/0 is one too.
func IsEverything(d string) bool {
	r, err := netip.ParsePrefix(d)
	return d == "*" || err == nil && r.Bits() == 0
}

// IsDestination reports whether a text is a domain, an address or a range of addresses.
func IsDestination(d string) bool {
	odd := func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' }
	if len(d) > longest || strings.ContainsFunc(d, odd) {
		return false
	}
	if strings.Contains(d, "/") {
		if _, err := netip.ParsePrefix(d); err != nil { // one with a port is no term of a statement
			return false
		}
	}
	return destination.Check(nil, []string{d}) == nil
}

// Forbid is the statement that closes what is denied and not kept from it.
func Forbid(deny, allow []string) string {
	text := fmt.Sprintf("forbid (principal, action == Action::\"NetworkConnect\", resource) when { %s }", anyOf(deny))
	if len(allow) > 0 {
		text += fmt.Sprintf(" unless { %s }", anyOf(allow))
	}
	return text + ";\n"
}

// anyOf is the condition that a destination is one of a list.
func anyOf(list []string) string {
	if slices.ContainsFunc(list, IsEverything) {
		return "true"
	}
	var out []string
	for _, d := range list {
		if strings.Contains(d, "/") {
			out = append(out, fmt.Sprintf("(context has ip && context.ip.isInRange(ip(%q)))", d))
		} else {
			out = append(out, fmt.Sprintf("resource in Host::%q", d))
		}
	}
	return strings.Join(out, " || ")
}
