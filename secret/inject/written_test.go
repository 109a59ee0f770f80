package inject_test

import (
	"strings"
	"testing"

	"cloister/secret"
	"cloister/secret/inject"
)

// A body that a secret is written into is written as its reading says it is, and bounded
// with what is written into it; what it holds is counted.
func TestBodyIsWrittenAsItReads(t *testing.T) {
	const value = `a "long" value ` + real + real + real
	short := secret.Placeholder{Text: "cloister-1234567890123456", Core: "1234567890123456"}
	kind := func(text string) []string { return []string{"Content-Type", text} }
	many := func(n int) string { return strings.Repeat(short.Text+" ", n) }
	for name, c := range map[string]struct {
		header []string
		body   string
		full   bool // the session holds all it may
		status int
		want   string
	}{
		"JSON":                     {header: kind("application/JSON; charset=utf-8"), body: `{"k":"` + short.Text + `"}`, status: 200, want: `{"k":"a \"long\" value ` + real},
		"form":                     {header: kind("application/x-www-form-urlencoded"), body: "k=" + short.Text, status: 200, want: "k=a+%22long%22+value+" + real},
		"a type that is none":      {header: kind("application/json; charset"), body: `{"k":"` + short.Text + `"}`, status: 415},
		"many":                     {header: kind("text/plain"), body: many(1000), status: 200, want: real},
		"more than it may hold":    {header: kind("text/plain"), body: many(40000), status: 413},
		"a session that holds all": {header: kind("text/plain"), body: many(1), full: true, status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOf(t, false, value, []inject.Held{{Name: "KEY", Placeholder: short}}, secret.Words{Hosts: []string{"example.com"}, Body: true})
			if c.full {
				for s := w.memory.Share(); s.Take(1<<10) == nil; s = w.memory.Share() {
				}
			}
			before := w.memory.Used()
			status, text := w.send("POST", "https://example.com/", c.body, c.header...)
			seen, _ := w.took()
			if status != c.status || !strings.Contains(seen, c.want) || c.status != 200 && strings.Contains(seen, real) {
				t.Errorf("%d %.300s\nseen %.300s", status, text, seen)
			}
			w.client.CloseIdleConnections()
			if used := w.memory.Used(); used != before {
				t.Errorf("%d bytes are held", used-before)
			}
		})
	}
}
