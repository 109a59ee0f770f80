package corpus

import (
	"fmt"

	"cloister/escape"
)

func nw18() escape.Case {
	return escape.Case{
		ID: "NW-18", Class: "suffix matching", Attack: "names that end, begin or look like allowed ones; the apex of a wildcard",
		Source: "CVE-2026-24052 (prefix check)", Layers: []string{"policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, host := range []string{"evil-allowed.test", "allowed.test.evil.test", "allowedxtest", "wild.test", "xwild.test", "evil.allowed.test", "allowed.tes", "test", "llowed.test", "sub.wild.test.evil.test", "allowed-test", "ask.test.allowed"} {
				out = append(out, tunnel("CONNECT "+host, host+":443", in))
			}
			return append(out, must("CONNECT allowed.test", in, "allowed.test:443"), must("CONNECT a.b.wild.test", in, "a.b.wild.test:443"))
		},
		Due: []escape.Due{
			{Kind: "net.connect", Host: "evil-allowed.test", Verdict: "deny"},
			{Kind: "net.connect", Host: "allowed.test.evil.test", Verdict: "deny"},
			{Kind: "net.connect", Host: "wild.test", Verdict: "deny"},
		},
	}
}

// must is a try that has to come off: it shows that the way is there and only
// the refused ones are refused.
func must(name string, in escape.Inside, target string) escape.Try {
	return escape.Try{Name: name + " must come off", Held: []error{escape.ErrNothing}, Do: func() error {
		if in.Control {
			return nil
		}
		if err := connects(in, target); err != nil {
			return fmt.Errorf("the way is not there: %w", err)
		}
		return escape.ErrNothing
	}}
}
