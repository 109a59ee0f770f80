package sealed_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"cloister/guardian/sealed"
)

// A later guardian opens what an earlier one sealed; nobody else, and nothing else.
func TestSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.key")
	text, err := (&sealed.Key{Path: path}).Seal("one", sealed.State{Authority: []byte("the key of the session"), Words: []byte("w")})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("the key")) {
		t.Error("it can be read")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	next := &sealed.Key{Path: path}
	if s, err := next.Open("one", text); err != nil || string(s.Authority) != "the key of the session" {
		t.Fatalf("%+v, %v", s, err)
	}
	altered := bytes.Clone(text)
	altered[len(altered)/2] ^= 1
	other := &sealed.Key{Path: filepath.Join(t.TempDir(), "session.key")}
	for name, open := range map[string]func() (sealed.State, error){
		"another session's": func() (sealed.State, error) { return next.Open("two", text) },
		"altered":           func() (sealed.State, error) { return next.Open("one", altered) },
		"short":             func() (sealed.State, error) { return next.Open("one", text[:8]) },
		"none":              func() (sealed.State, error) { return next.Open("one", nil) },
		"too long":          func() (sealed.State, error) { return next.Open("one", make([]byte, sealed.Most+1)) },
		"another instance":  func() (sealed.State, error) { return other.Open("one", text) },
	} {
		if s, err := open(); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&sealed.Key{Path: path}).Seal("one", sealed.State{}); err == nil {
		t.Error("a key of five bytes seals")
	}
}
