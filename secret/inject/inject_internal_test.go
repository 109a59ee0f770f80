package inject

import (
	"cloister/internal/authority"
	"cloister/internal/budget"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/secret"
)

// A value that was sent once is scrubbed, however often another secret changes.
func TestAStaticSecretIsNotForgotten(t *testing.T) {
	value := func(text string) secret.Value {
		v, err := secret.New(text)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	still, moving := value("static-static-static"), value("moving-moving-moving")
	s := New([]Held{{Name: "A", Placeholder: secret.NewPlaceholder(still)}, {Name: "B", Placeholder: secret.NewPlaceholder(moving)}}, nil, nil, budget.New(128<<20, 0, 10*time.Second).Share(), &Values{})
	s.values.Learn("A", still)
	for i := range 40 {
		s.values.Learn("B", value(fmt.Sprintf("moving-moving-moving-%02d", i)))
	}
	for text, gone := range map[string]bool{"static-static-static": true, "moving-moving-moving-39": true, "moving-moving-moving-32": true, "moving-moving-moving-31": false} {
		if got, _ := s.Scrubber().Text(text); strings.Contains(got, text) == gone {
			t.Errorf("%s became %s", text, got)
		}
	}
	if n := len(s.values.Of("B")); n != mostValues {
		t.Errorf("%d values are remembered", n)
	}
	before := s.Scrubber()
	s.values.Learn("C", value("of-another-session"))
	if s.Scrubber() != before {
		t.Error("made anew for a secret of another session")
	}
}

// Ranges are taken from requests to those alone who may know a value.
func TestWhoMayEcho(t *testing.T) {
	v, err := secret.New("static-static-static")
	if err != nil {
		t.Fatal(err)
	}
	s := New([]Held{{Name: "A", Placeholder: secret.NewPlaceholder(v)}}, nil, nil, budget.New(128<<20, 0, 10*time.Second).Share(), &Values{})
	at := func(host string) authority.Authority {
		a, err := authority.Parse(host, 443)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if s.mayEcho(at("api.example.com")) {
		t.Error("nothing was sent yet")
	}
	s.sentTo(at("api.example.com"))
	for host, want := range map[string]bool{"api.example.com": true, "files.example.com": true, "example.org": false, "a.github.io": false, "com": false} {
		if s.mayEcho(at(host)) != want {
			t.Errorf("%s: %t", host, !want)
		}
	}
}
