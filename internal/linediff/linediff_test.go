package linediff_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/internal/linediff"
)

func TestChanges(t *testing.T) {
	for name, tt := range map[string]struct{ before, after, want string }{
		"nothing":         {"", "", ""},
		"new":             {"", "a\nb\n", "+ a|+ b"},
		"gone":            {"a\n", "", "- a"},
		"the same":        {"a\nb\n", "a\nb\n", "  a|  b"},
		"one of three":    {"a\nb\nc\n", "a\nx\nc\n", "  a|- b|+ x|  c"},
		"moved":           {"a\nb\n", "b\na\n", "- a|  b|+ a"},
		"no end of line":  {"a", "a\nb", "  a|+ b"},
		"an empty line":   {"a\n", "a\n\n", "  a|+ "},
		"the first again": {"a\n", "a\na\n", "  a|+ a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(linediff.Changes(tt.before, tt.after), "|"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Who agrees to a text must have seen all of it, however long it is.
func TestEveryLineIsShown(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		text.WriteString("# " + strconv.Itoa(i) + "\n")
	}
	got := linediff.Changes(text.String(), text.String()+"proxy: {allow: [{domain: evil.example}]}\n")
	if !slices.Contains(got, "+ proxy: {allow: [{domain: evil.example}]}") {
		t.Errorf("of %d lines none says what is asked for", len(got))
	}
}
