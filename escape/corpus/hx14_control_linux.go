package corpus

import (
	"cloister/escape"
	"cloister/escape/browser"
	"cloister/hostexec"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

func hx14() escape.Case {
	return escape.Case{
		ID: "HX-14", Class: "ANSI and control", Attack: "every control byte and sequence in arguments, folder, file and project: what lists, questions, watchers, record and window say of it is plain text (HX-15: bidi and invisible letters, HX-16: markup)",
		Source: "CVE-2023-28101; zeroclaw #9396; agent-secret #185", Layers: []string{"renderer"},
		Host: commands(asksForAll, func(r *ruled) []escape.Finding {
			return r.rendered(map[string]string{
				"C0": "\x01\x02\x07\b\x0b\x0c\x0e\x7f", "carriage return": "harmless\revil", "backspaces": "evil\b\b\b\bgood", "CSI": "\x1b[2J\x1b[31mred", "OSC 8": "\x1b]8;;https://evil.test\x07here\x1b]8;;\x07",
				"OSC 52": "\x1b]52;c;ZXZpbA==\x07", "title": "\x1b]0;title\x1b\\\\", "C1": "\u0085\u009b31m\u009d0;x\u009c", "DCS": "\x1bP+q\x1b\\\\", "bad UTF-8": "\xc0\x80\xed\xa0\x80\xff",
			}, false)
		}),
	}
}

// asksForAll lets a person be asked about every echo.
const asksForAll = "  manual_approve:\n    - {program: echo, args: [<any>, ...]}\n"

// rawText are bytes and letters that nobody may be shown as they are.
var rawText = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]|[\x{80}-\x{9f}\x{ad}\x{34f}\x{61c}\x{115f}\x{1160}\x{17b4}\x{180b}-\x{180e}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{3000}\x{3164}\x{a0}\x{feff}\x{ffa0}\x{fff9}-\x{fffb}\x{e0001}-\x{e01ef}\x{1d173}-\x{1d17a}]`)

// rendered has a person be asked about texts, and looks at every place that says so.
func (r *ruled) rendered(texts map[string]string, marked bool) []escape.Finding {
	return r.watched(func() []escape.Finding {
		var out []escape.Finding
		v, err := r.open()
		if err != nil {
			return escape.NoHost("open the window", err)
		}
		for name, text := range texts {
			id := r.asked("cd /work && " + hostexec.Line([]string{"hostexec", "echo", text}))
			shown := r.cloister("approvals", "show", id)
			var bad []string
			places := map[string]string{
				"list": r.cloister("approvals", "list").Stdout, "list --json": r.cloister("approvals", "list", "--json").Stdout, "show": shown.Stdout,
				"audit tail": r.cloister("audit", "tail").Stdout, "audit tail --json": r.cloister("audit", "tail", "--json").Stdout, "the window": browser.Ask(v.at, v.request("GET", "/v1/approvals")).Body,
			}
			for place, said := range places {
				if hit := rawText.FindString(said); hit != "" || said == "" || !utf8.ValidString(said) {
					bad = append(bad, fmt.Sprintf("%s: %+q", place, hit))
				}
			}
			if marked && !strings.Contains(shown.Stdout, "beware:") {
				bad = append(bad, "it is not marked: "+shown.Stdout)
			}
			r.cloister("approvals", "deny", id)
			status, _ := r.ended()
			out = append(out, found(name, id != "" && len(bad) == 0 && status != "0", "%q %q", id, bad))
		}
		return out
	})
}
