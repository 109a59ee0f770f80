package inject_test

import (
	"strings"
	"testing"
	"time"

	"cloister/internal/budget"
	"cloister/secret"
	"cloister/secret/inject"
)

// A placeholder that a program kept: of the same secret it is as good as that of now, and
// any other is refused by name.
func TestKeptPlaceholders(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		words := secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key"}
		w := newWorld(t, http2, words)
		v, _ := secret.New(real)
		old, other, gone := secret.NewPlaceholder(v), secret.NewPlaceholder(v), secret.NewPlaceholder(v)
		words.Name, words.Origin = "KEY", "config.yaml:7"
		b, err := secret.Bind(words)
		if err != nil {
			t.Fatal(err)
		}
		w.held.Earlier = []secret.Placeholder{old}
		w.session = inject.New([]inject.Held{w.held}, map[string][]*secret.Binding{"KEY": {b}}, w, budget.New(128<<20, 0, 10*time.Second).Share(), &w.values,
			inject.Foreign{Name: "KEY", Core: other.Core, Project: "/home/me/other"}, inject.Foreign{Name: "GONE", Core: gone.Core})
		for _, p := range []secret.Placeholder{old, w.held.Placeholder} {
			status, _ := w.send("GET", "https://example.com/", "", "X-Api-Key", p.Text)
			if seen, _ := w.took(); status != 200 || !strings.Contains(seen, real) {
				t.Errorf("control: %d %s", status, seen)
			}
		}
		for text, want := range map[string]string{other.Text: "secret KEY in the header x-api-key: it is of the project /home/me/other", gone.Text: "secret GONE in the header x-api-key: this session does not have that secret"} {
			status, said := w.send("GET", "https://example.com/", "", "X-Api-Key", text)
			if seen, record := w.took(); status != 403 || !strings.Contains(said, want) || seen != "" || !strings.Contains(record, "refuse ") {
				t.Errorf("%d %s; seen %s; recorded %s", status, said, seen, record)
			}
		}
		if status, said := w.send("POST", "https://example.com/", `{"refresh_token":"`+other.Text+`"}`); status != 403 || !strings.Contains(said, "in the body: it is of the project") {
			t.Errorf("in a body: %d %s", status, said)
		}
	})
}
