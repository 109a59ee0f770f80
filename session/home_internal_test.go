package session

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cloister/agent"
)

// A home is the payload's: what it wrote there neither leads out nor is lost.
func TestAnswer(t *testing.T) {
	answers := []agent.Answer{
		{File: "a/b.json", Keys: []string{"told"}, Value: true, Over: true},
		{File: "a/b.json", Keys: []string{"theme"}, Value: "dark"},
		{File: "a/b.json", Keys: []string{"keys", "approved"}, Value: "abc", Add: true},
	}
	const whole = `{"keys":{"approved":["abc"]},"theme":"dark","told":true}`
	for _, c := range []struct {
		name, before, after, fails string
		make                       func(t *testing.T, file string) error
	}{
		{name: "nothing there", after: whole},
		{name: "empty", before: "\n", after: whole},
		{name: "the person's own", before: `{"theme":"light","n":12345678901234567890,"told":false}`,
			after: `{"keys":{"approved":["abc"]},"n":12345678901234567890,"theme":"light","told":true}`},
		{name: "answered before", before: whole, after: whole},
		{name: "another shape", before: `{"keys":[1],"theme":"x","told":true}`, after: `{"keys":[1],"theme":"x","told":true}`},
		{name: "no JSON", before: "{", after: "{", fails: "no JSON object"},
		{name: "a list", before: "[]", after: "[]", fails: "no JSON object"},
		{name: "null", before: "null", after: "null", fails: "no JSON object"},
		{name: "too large", before: `{"x":"` + strings.Repeat("x", maxSettings) + `"}`, after: `{"x":"` + strings.Repeat("x", maxSettings) + `"}`, fails: "too large"},
		{name: "a pipe", fails: "no regular file", make: func(_ *testing.T, file string) error { return syscall.Mkfifo(file, 0o600) }},
		{name: "a link that leads out", fails: "no regular file", make: func(t *testing.T, file string) error {
			return os.Symlink(filepath.Join(t.TempDir(), "out"), file)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, "a/b.json")
			if c.before != "" || c.make != nil {
				if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if c.make != nil {
				if err := c.make(t, file); err != nil {
					t.Fatal(err)
				}
			} else if c.before != "" {
				if err := os.WriteFile(file, []byte(c.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			err := answer(home, "a/b.json", answers)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("answered: %v, want %q", err, c.fails)
			}
			if c.make != nil {
				return
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(string(text)), ""); got != c.after {
				t.Errorf("it says %.200s, want %.200s", got, c.after)
			}
			if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	t.Run("a folder that leads out", func(t *testing.T) {
		home, out := t.TempDir(), t.TempDir()
		if err := os.Symlink(out, filepath.Join(home, "a")); err != nil {
			t.Fatal(err)
		}
		if err := answer(home, "a/b.json", answers); err == nil {
			t.Error("answered outside the home")
		}
		if entries, _ := os.ReadDir(out); len(entries) > 0 {
			t.Errorf("outside there is %v", entries)
		}
	})
}
