package nearest_test

import (
	"testing"

	"cloister/internal/nearest"
)

func TestWord(t *testing.T) {
	words := []string{"allow", "deny", "ask", "presets", "unlisted_domain_behavior", "cpus", "pids"}
	for _, tt := range []struct{ name, typed, want string }{
		{"a missing letter", "alow", "allow"},
		{"a swapped pair", "dney", "deny"},
		{"one letter more", "preset", "presets"},
		{"a long word", "unlisted_domain_behaviour", "unlisted_domain_behavior"},
		{"the same word", "ask", "ask"},
		{"short and far", "xyz", ""},
		{"nothing near", "memory_limit", ""},
		{"empty", "", ""},
		{"of two equally near ones the first", "pus", "cpus"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := nearest.Word(tt.typed, words); got != tt.want {
				t.Errorf("Word(%q) = %q, want %q", tt.typed, got, tt.want)
			}
		})
	}
}

func TestHint(t *testing.T) {
	words := []string{"HttpRequest", "McpCall"}
	for wrong, want := range map[string]string{
		"httprequests": `did you mean "HttpRequest"?`,
		"mcpcal":       `did you mean "McpCall"?`,
		"Connect":      "known are HttpRequest, McpCall",
	} {
		if got := nearest.Hint(wrong, words); got != want {
			t.Errorf("%s: %s, want %s", wrong, got, want)
		}
	}
}
