package corpus

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"unicode/utf8"

	"cloister/escape"
)

func lg01() escape.Case {
	return escape.Case{
		ID: "LG-01", Class: "log injection", Attack: "CR, LF, JSON, escape sequences, U+2028 and NUL in host, path, header and argument: one record stays one line without a control byte",
		Source: "supertool #1557", Layers: []string{"audit"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			return []escape.Try{
				net1("in a host", func() error {
					return raw(in, "CONNECT evil\x1b[2J\"},{\"verdict\":\"allow\x01.test:443 HTTP/1.1\r\n\r\n")
				}),
				net1("in a SOCKS name", func() error { return socks(in, "a\x1b]0;x\x07\r\n{\"v\":1}.test", 443) }),
				net1("in a path", func() error {
					return talk("tcp", to(in, "lg01.test:80"), "GET /\x1b[31m\xe2\x80\xa8{\"a\":1}\x7f HTTP/1.1\r\nHost: lg01.test\r\n\r\n")
				}),
				net1("in a method", func() error {
					return raw(in, "G\x1bT http://lg01.test/ HTTP/1.1\r\nHost: lg01.test\r\n\r\n")
				}),
				net1("in a header", func() error {
					return raw(in, "GET http://lg01.test/ HTTP/1.1\r\nHost: lg01.test\r\nX: \x00\x1b\r\n\r\n")
				}),
			}
		},
		Host: func(w *escape.World) []escape.Finding {
			named := w.Outcome(nil, "sh", "-c", "true", "\x1b[31m\n{\"v\":1}\u2028")
			out := []escape.Finding{found("an argument with controls", named.Status == 0, "status %d: %s", named.Status, named.Stderr)}
			files, err := filepath.Glob(w.Audit + "/*")
			if err != nil || len(files) == 0 {
				return append(out, found("the record is there", false, "%v", err))
			}
			lines := 0
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					continue // a folder
				}
				if filepath.Ext(file) != ".jsonl" {
					continue
				}
				for line := range bytes.Lines(text) {
					lines++
					line = bytes.TrimSuffix(line, []byte("\n"))
					var e map[string]any
					if err := json.Unmarshal(line, &e); err != nil || !utf8.Valid(line) || bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 }) {
						out = append(out, found("a line of the record", false, "%v %q", err, line))
					}
				}
			}
			verify, err := w.Exec(w.Cloister, "audit", "verify")
			tail, terr := w.Exec(w.Cloister, "audit", "tail", "-n", "0")
			return append(out,
				found("control: there are lines", lines > 10, "%d in %v", lines, files),
				found("the chain is whole", err == nil && verify.Status == 0, "%v %s", err, verify.Stderr),
				found("what is printed has no control", terr == nil && tail.Status == 0 && !bytes.ContainsFunc([]byte(tail.Stdout), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }), "%.300q", tail.Stdout))
		},
	}
}
