package corpus

import (
	"cloister/escape"
	"strings"
)

func hx15() escape.Case {
	return escape.Case{
		ID: "HX-15", Class: "bidi and invisible", Attack: "letters that turn, hide, fill or pad a text in a question: they are spelled out, and the question is marked",
		Source: "openclaw #43687; hermes #81403; notebook-intelligence #415", Layers: []string{"renderer"},
		Host: commands(asksForAll, func(r *ruled) []escape.Finding {
			return r.rendered(map[string]string{
				"turned": "\u202egnp.exe", "isolates": "\u2066a\u2067b\u2068c\u2069", "marks of direction": "a\u200eb\u200fc\u061c", "zero width": "a\u200bb\u200cc\u200dd\ufeffe", "separators": "a\u2028b\u2029c",
				"fillers": "a\u3164b\u115fc\u1160d\uffa0e", "variation": "a\U000e0100b\ufe0f", "tags": "a\U000e0041b", "music": "a\U0001d173b", "padding": "a" + strings.Repeat("\u3000", 60) + "b", "no-break": "a\u00a0b\u202fc", "soft hyphen": "a\u00adb",
				"a flood of marks": "a" + strings.Repeat("\u0301", 40), "look-alikes": "p\u0430ypal",
			}, true)
		}),
	}
}
