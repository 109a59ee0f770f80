package termsafe_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"cloister/internal/termsafe"

	"pgregory.net/rapid"
)

// HX-13: what is shown is what is meant, whatever the bytes.
func TestQuoteKeepsTheBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes"))
		back, err := strconv.Unquote(termsafe.Quote(s))
		if err != nil || back != s {
			t.Fatalf("%q became %q (%v)", s, back, err)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		back, err := strconv.Unquote(termsafe.Quote(s))
		if err != nil || back != s {
			t.Fatalf("%q became %q (%v)", s, back, err)
		}
	})
}

// HX-14, HX-15: nothing that a terminal obeys, and nothing without a shape.
func TestNothingHiddenIsLeft(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		bad := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Variation_Selector) ||
			unicode.Is(unicode.Zs, r) && r != ' ' || r == 0x115f || r == 0x1160 || r == 0x3164 || r == 0x1d173
		s := string(r)
		for _, shown := range []string{termsafe.Text(s), termsafe.Quote(s)} {
			if bad && strings.ContainsRune(shown, r) {
				t.Fatalf("%U is shown as it is", r)
			}
		}
		if bad && termsafe.Marks(s) == "" {
			t.Fatalf("%U is not marked", r)
		}
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "npm install", "npm install"},
		{"letters", "grüße 漢字", "grüße 漢字"},
		{"colour", "\x1b[31mred", `\x1b[31mred`},
		{"carriage return", "rm -rf /\rls", `rm -rf /\rls`},
		{"turned", "a\u202egpj.exe", `a\u202egpj.exe`},
		{"joined", "a\u200bb", `a\u200bb`},
		{"wide space", "a\u3000b", `a\u3000b`},
		{"not text", "a\xffb", `a\xffb`},
		{"C1", "a\u009bb", `a\u009bb`},
		{"a pile", "e\u0301\u0301\u0301\u0301", "e\u0301\u0301\\u0301\\u0301"},
	} {
		if got := termsafe.Text(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := termsafe.Quote("ls" + strings.Repeat(" ", 6) + "; rm"); got != `"ls   \x20\x20\x20; rm"` {
		t.Errorf("padding is %s", got)
	}
}

func TestMarks(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"npm install", ""},
		{"grüße", "not ASCII"},
		{"pаypal", "several alphabets"}, // a Cyrillic a
		{"a\u200bb", "cannot be seen"},
		{"xn--pypal-4ve.com", "not ASCII"},
	} {
		if got := termsafe.Marks(c.in); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestClip(t *testing.T) {
	if got := termsafe.Clip("äöü", 3); got != "ä[4 bytes more]" {
		t.Errorf("%q", got)
	}
	if got := termsafe.Clip("abc", 3); got != "abc" {
		t.Errorf("%q", got)
	}
}

func TestJSONMeansTheSame(t *testing.T) {
	for _, text := range []string{"plain", "ü and 日本", "\u0085\u009b31m", "\u202egnp", "a\u200bb\u3164", "\U0001d173\U000e0041", "\x7f", "line\nend", "\ufffd", "a\u00a0b"} {
		raw, err := json.MarshalIndent(map[string]string{text: text}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		safe := termsafe.JSON(raw)
		var back map[string]string
		if err := json.Unmarshal(safe, &back); err != nil || back[text] != text {
			t.Errorf("%q became %s: %q, %v", text, safe, back, err)
		}
		for _, r := range string(safe) {
			if r != '\n' && r != ' ' && (!unicode.IsGraphic(r) || unicode.In(r, unicode.Zs, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)) {
				t.Errorf("%q: %U is left in %s", text, r, safe)
			}
		}
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"a\tb\r\n\x1b[2Jc\n": "a\tb\n\\x1b[2Jc\n",
		"a\rb":               "a\\rb",
	} {
		if got := termsafe.Lines(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
