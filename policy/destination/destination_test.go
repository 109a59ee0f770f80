package destination_test

import (
	"fmt"
	"testing"

	"cloister/policy/destination"
)

func TestRules(t *testing.T) {
	for word, want := range map[string]string{
		"example.com":        "domain example.com ports []",
		"*.example.com:8443": "domain *.example.com ports [8443]",
		"203.0.113.7":        "domain 203.0.113.7 ports []",
		"203.0.113.0/24:53":  "cidr 203.0.113.0/24 ports [53]",
		"2001:db8::1":        "domain 2001:db8::1 ports []",
		"[2001:db8::1]:443":  "domain 2001:db8::1 ports [443]",
	} {
		rules, err := destination.Rules([]string{word}, nil)
		if err != nil {
			t.Errorf("%s: %v", word, err)
			continue
		}
		got := fmt.Sprintf("domain %s ports %v", rules[0].Domain, rules[0].Ports)
		if rules[0].CIDR != "" {
			got = fmt.Sprintf("cidr %s ports %v", rules[0].CIDR, rules[0].Ports)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", word, got, want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, word := range []string{"", ":443", "example.com:", "example.com:0", "example.com:65536", "example.com:0443", "example.com:http", "exa mple.com"} {
		if err := destination.Check([]string{word}, nil); err == nil {
			t.Errorf("--allow %q is taken", word)
		}
		if err := destination.Check(nil, []string{word}); err == nil {
			t.Errorf("--deny %q is taken", word)
		}
	}
}
