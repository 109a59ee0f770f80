// Package destination reads the destinations that a person types as flags,
// --allow DOMAIN[:PORT] and --deny DOMAIN[:PORT], as rules.
//
// The promise: the same words mean the same rule for whoever checks them early
// and for the guardian that judges by them. It is pure, and decides nothing.
//
// Most readers want [Rules].
package destination

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"cloister/internal/source"
	"cloister/policy"
)

// Rules are the rules of --allow and --deny. Its errors are of type *source.Problem.
func Rules(allow, deny []string) ([]policy.Rule, error) {
	var rules []policy.Rule
	var errs []error
	for _, list := range []struct {
		effect policy.Effect
		flag   string
		words  []string
	}{{policy.Allow, "--allow", allow}, {policy.Deny, "--deny", deny}} {
		for _, word := range list.words {
			rule, err := parse(list.effect, list.flag, word)
			rules, errs = append(rules, rule), append(errs, err)
		}
	}
	return rules, errors.Join(errs...)
}

// Check reports whether the words of --allow and --deny can be rules.
func Check(allow, deny []string) error {
	rules, err := Rules(allow, deny)
	if err != nil {
		return err
	}
	_, err = policy.Compile(policy.Input{Rules: rules})
	return err
}

// parse reads DOMAIN[:PORT], where DOMAIN may be a wildcard, an address (an IPv6 one
// with a port stands in brackets) or a range.
func parse(effect policy.Effect, flag, word string) (policy.Rule, error) {
	r := policy.Rule{Effect: effect, Origin: source.Position{Source: flag}}
	bad := func(msg string) error {
		return &source.Problem{Position: source.Position{File: flag}, Msg: fmt.Sprintf("%q %s", word, msg),
			Hint: "want DOMAIN[:PORT]"}
	}
	host, port, hasPort := split(word)
	if host == "" {
		return r, bad("names no destination")
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' { // a statement of the same words has one spelling
			return r, bad("has no port from 1 to 65535 after its colon")
		}
		r.Ports = []uint16{uint16(n)}
	}
	if isRange(host) {
		r.CIDR = host
	} else {
		r.Domain = host
	}
	return r, nil
}

func split(word string) (host, port string, hasPort bool) {
	if _, err := netip.ParseAddr(word); err == nil || isRange(word) {
		return word, "", false
	}
	if inner, ok := strings.CutPrefix(word, "["); ok {
		host, rest, _ := strings.Cut(inner, "]")
		port, hasPort := strings.CutPrefix(rest, ":")
		return host, port, hasPort || rest != ""
	}
	if i := strings.LastIndexByte(word, ':'); i >= 0 {
		return word[:i], word[i+1:], true
	}
	return word, "", false
}

func isRange(word string) bool {
	_, err := netip.ParsePrefix(word)
	return err == nil
}
