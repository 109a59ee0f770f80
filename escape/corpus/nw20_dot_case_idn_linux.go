package corpus

import (
	"strconv"
	"strings"

	"cloister/escape"
)

func nw20() escape.Case {
	return escape.Case{
		ID: "NW-20", Class: "dot, case, IDN", Attack: "homographs, other dots, empty and over-long labels and names; one canonical form for all spellings of an allowed name",
		Source: "CVE-2022-24825, CVE-2022-29188", Layers: []string{"one canonical name", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			long := strings.Repeat("a", 64) + ".wild.test"
			name := strings.Repeat("a.", 125) + "wild.test"
			var out []escape.Try
			for _, host := range []string{"\u0430llowed.test", "allowed.te\u0455t", "xn--llowed-3fg.test", "allowed..test", ".allowed.test", "allowed.test..", "-allowed.test", "allowed_.test..", long, name, "", ".", "al\u00adlowed.test.evil", "*.wild.test", "*"} {
				out = append(out, tunnel("CONNECT "+strconv.QuoteToASCII(host), host+":443", in))
			}
			return append(out, must("CONNECT ALLOWED.Test", in, "ALLOWED.Test:443"), must("CONNECT allowed.test.", in, "allowed.test.:443"))
		},
	}
}
