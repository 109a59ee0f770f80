package devcontainer

import "testing"

// TestIgnoring: a .dockerignore means what it means to the engine's own client.
func TestIgnoring(t *testing.T) {
	for _, tt := range []struct {
		text, path string
		want       bool
	}{
		{"*.key\n", "a.key", true},
		{"*.key\n", "d/a.key", false},
		{"**/*.key\n", "d/e/a.key", true},
		{"/d\n", "d/e/a", true},
		{"d\n!d/keep\n", "d/keep", false},
		{"d\n!d/keep\n", "d/other", true},
		{"[a-c].txt\n", "b.txt", true},
		{"[a-c].txt\n", "d.txt", false},
		{"a\\*b\n", "a*b", true},
		{"a\\*b\n", "axb", false},
		{"# d\n", "# d", false},
		{"\xef\xbb\xbfd\n", "d", true},
	} {
		of, err := ignoring([]byte(tt.text))
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		if got, err := of(tt.path); err != nil || got != tt.want {
			t.Errorf("%q names %q: %v, %v; want %v", tt.text, tt.path, got, err, tt.want)
		}
	}
	for _, text := range []string{"[\n", "!\n", "a[\n"} {
		if _, err := ignoring([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
