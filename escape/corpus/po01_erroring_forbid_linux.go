package corpus

import "cloister/escape"

func po01() escape.Case {
	return escape.Case{
		ID: "PO-01", Class: "erroring forbid", Attack: "a forbid that cannot be evaluated beside a permit for everything: cedar-go would skip it",
		Source: "cedar-go authorize.go (continue on error)", Layers: []string{"policy"}, Needs: gate(),
		Flags: func(w *escape.World) []string {
			path := w.Base + "/run/po01.cedar"
			text := "permit (principal, action == Action::\"NetworkConnect\", resource);\nforbid (principal, action == Action::\"NetworkConnect\", resource) when { 9223372036854775807 + 1 > 0 };\n"
			if err := w.Write(path, text); err != nil {
				return []string{"--policy", "/nowhere"}
			}
			return []string{"--policy", path}
		},
		Tries: func(in escape.Inside) []escape.Try {
			return []escape.Try{
				tunnel("CONNECT a name that the permit allows", "po01.test:443", in),
				tunnel("CONNECT a name that a rule allows", "allowed.test:443", in),
			}
		},
		Due: []escape.Due{{Kind: "net.connect", Host: "po01.test", Verdict: "deny"}, {Kind: "net.connect", Host: "allowed.test", Verdict: "deny"}},
	}
}
