package corpus

import (
	"slices"
	"strings"

	"cloister/escape"
)

func pr04a() escape.Case {
	return escape.Case{
		ID: "PR-04a", Class: "beyond the screen", Attack: "write to the person's terminal what does more than draw: title, clipboard, links, notifications, windows, a printer, sums of what is on the screen, a locked keyboard; also as UTF-8 and cut by control characters",
		Source: "xterm's ctlseqs (media copy, DECRQCRA, KAM); CVE-2003-0063 (a title that comes back as input)", Layers: []string{"termsafe"},
		Host: func(w *escape.World) []escape.Finding {
			sequences := map[string]string{
				"title": `\033]0;evil\007`, "clipboard": `\033]52;c;ZXZpbA==\033\\`, "a link": `\033]8;;http://evil\033\\`, "a notification": `\033]777;notify;evil;evil\007`,
				"title reported": `\033[21t`, "window": `\033[8;1;1t`, "device control": `\033P+q544e\033\\`, "a title of screen's": `\033kevil\033\\`,
				"printing": `\033[5i`, "printing, private": `\033[?5i`, "sums of the screen": `\033[1;0;1;1;1;1*y`, "a test": `\033[2;1y`, "locked keys": `\033[4;2h`,
				"UTF-8": `\302\2330;1;1t`, "cut": `\033[\0022;1y`,
			}
			var out []escape.Finding
			var script strings.Builder
			for _, s := range sequences {
				script.WriteString("printf '" + strings.ReplaceAll(s, "\\033\\\\", "\\033\\134") + "'; ")
			}
			for _, where := range []string{w.Cloister + " run -- ", ""} {
				res, err := w.Exec("script", "-qec", where+`sh -c "printf 'begins%s' ''; `+script.String()+`printf ends"`, "/dev/null")
				_, got, whole := strings.Cut(res.Stdout, "begins")
				got, _, ends := strings.Cut(got, "ends")
				// script(1) may have the terminal echo an end of its own input, as ^@.
				obeyed := strings.Contains(got, "evil") || slices.ContainsFunc([]byte(got), func(b byte) bool { return b == '\x1b' || b == '\a' || b >= 0x80 })
				if where == "" {
					out = append(out, found("control: outside all of it arrives", err == nil && strings.Count(got, "\x1b") >= len(sequences)-1, "%v %q", err, got))
					continue
				}
				out = append(out,
					found("the command ran", err == nil && res.Status == 0 && whole && ends, "%v, status %d: %q%s", err, res.Status, res.Stdout, res.Stderr),
					found("nothing that a terminal obeys arrives", !obeyed, "%q", got))
			}
			return out
		},
	}
}
