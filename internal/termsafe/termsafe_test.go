package termsafe_test

import (
	"bytes"
	"strings"
	"testing"

	"cloister/internal/termsafe"
)

func TestFilter(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"text", "plain ü 漢字 \t\r\n\b\x07", "plain ü 漢字 \t\r\n\b\x07"},
		{"colours and cursor", "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[?25l\x1b[10;5H\x1b7\x1b8\x1bM", "\x1b[1;31mred\x1b[0m\x1b[2J\x1b[?25l\x1b[10;5H\x1b7\x1b8\x1bM"},
		{"questions", "\x1b[c\x1b[6n", "\x1b[c\x1b[6n"},
		{"title", "a\x1b]0;evil\x07b", "ab"},
		{"clipboard", "a\x1b]52;c;eA==\x1b\\b", "ab"},
		{"control inside escape", "\x1b\n]52;c;eA==\x07b", "\nb"},
		{"NUL inside escape", "\x1b\x00]52;c;eA==\x07b", "\x00b"},
		{"DEL inside escape", "\x1b\x7f]2;x\x07b", "b"},
		{"many controls inside escape", "\x1b\n\n\r]2;x\x07b", "\n\n\rb"},
		{"device control", "\x1b\nPq#0\x1b\\b", "\nb"},
		{"screen's title", "\x1bkevil\x1b\\b", "b"},
		{"application and privacy", "\x1b_a\x1b\\\x1b^b\x1b\\\x1bXc\x1b\\d", "d"},
		{"UTF-8 OSC", "\xc2\x9d52;c;eA==\x07b", "b"},
		{"UTF-8 CSI window report", "\xc2\x9b21tb", "b"},
		{"UTF-8 CSI colour becomes 7 bits", "\xc2\x9b1mb", "\x1b[1mb"},
		{"raw OSC", "\x9d2;x\x07b", "b"},
		{"raw byte inside a character", "\xe6\x9d\x8e", "\xe6\x9d\x8e"},
		{"C1 after a cut character", "\xe6\x9d\x9d2;x\x07\x07", "\xe6\x9d\x9d2;x\x07\x07"},
		{"latin capital behind C2", "\xc2\xa9", "\xc2\xa9"},
		{"window report", "\x1b[21tb\x1b[8;10;10tb", "bb"},
		{"printing", "\x1b[5i\x1b[?5i\x1b[ib\x1b[4i", "b"},
		{"reading the screen", "\x1b[1;0;1;1;1;1*yb\x1b[?1;1y", "b"},
		{"a test of the terminal", "\x1b[2;1yb", "b"},
		{"locking the keyboard", "\x1b[2hb\x1b[4;02;20hc", "bc"},
		{"other modes", "\x1b[4h\x1b[20h\x1b[2l\x1b[?2h\x1b[?1;2h\x1b[22hb", "\x1b[4h\x1b[20h\x1b[2l\x1b[?2h\x1b[?1;2h\x1b[22hb"},
		{"control inside a sequence", "\x1b[\n21tb", "\nb"},
		{"cancelled sequence", "\x1b[1\x18b", "b"},
		{"ESC ends a string", "\x1b]2;x\x1b[1mb", "\x1b[1mb"},
		{"OSC inside OSC", "\x1b]2;x\x1b]52;c;y\x07b", "b"},
		{"endless sequence", "\x1b[" + strings.Repeat("1;", 100) + "mb", strings.Repeat("1;", 36) + "mb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var whole, split bytes.Buffer
			if _, err := termsafe.New(&whole).Write([]byte(tt.in)); err != nil {
				t.Fatal(err)
			}
			f := termsafe.New(&split)
			for i := range len(tt.in) {
				if _, err := f.Write([]byte{tt.in[i]}); err != nil {
					t.Fatal(err)
				}
			}
			if whole.String() != split.String() {
				t.Errorf("whole %q, byte by byte %q", whole.String(), split.String())
			}
			if tt.name != "endless sequence" && whole.String() != tt.want {
				t.Errorf("got %q, want %q", whole.String(), tt.want)
			}
		})
	}
}

// FuzzFilter: whatever comes in, no string introducer goes out, in any form,
// and nothing is made up.
func FuzzFilter(f *testing.F) {
	f.Add([]byte("a\x1b]52;c;eA==\x07\xc2\x9d\x1b\n]x\x1b[21t"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if _, err := termsafe.New(&out).Write(in); err != nil {
			t.Fatal(err)
		}
		// Read as a terminal does: controls do not end an escape.
		inEscape := false
		for _, b := range out.Bytes() {
			switch {
			case b == 0x1b:
				inEscape = true
			case inEscape && (b < 0x20 || b == 0x7f):
			case inEscape:
				if strings.IndexByte("]P^_Xk", b) >= 0 {
					t.Fatalf("%q lets %q through", in, out.Bytes())
				}
				inEscape = false
			}
		}
		if bytes.Contains(out.Bytes(), []byte("\xc2\x9d")) || bytes.Contains(out.Bytes(), []byte("\xc2\x90")) {
			t.Fatalf("%q lets %q through", in, out.Bytes())
		}
	})
}

func TestSilent(t *testing.T) {
	in := "a\x1b[c\x1b[>c\x1b[6n\x1b[?6n\x1b[x\x1b[?25$p\x1b[>q\x1b[?u\x1b[>1u\x1b[>4;1m\x1bZ\x05b\x1b[0m\x1b[4 q\x1b[u\x1b[!p\x1b[?25hc"
	for chunk := 1; chunk <= len(in); chunk += 7 {
		var got bytes.Buffer
		f := termsafe.NewSilent(&got)
		for rest := in; rest != ""; {
			n := min(chunk, len(rest))
			if _, err := f.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if want := "ab\x1b[0m\x1b[4 q\x1b[u\x1b[!p\x1b[?25hc"; got.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", chunk, got.String(), want)
		}
	}
}
