package secret_test

import (
	"testing"

	"cloister/internal/authority"
	"cloister/secret"
)

// TestRefusesSays: the reason names what does not fit, and the key to widen is the one that would help.
func TestRefusesSays(t *testing.T) {
	b, err := secret.Bind(secret.Words{Name: "KEY", Hosts: []string{"api.example"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		to        string
		secure    bool
		why       string
		key, word string
	}{
		"bound":           {"api.example:443", true, "", "", ""},
		"another host":    {"other.example:443", true, "it is bound to api.example", "hosts", "other.example"},
		"in the clear":    {"api.example:80", false, "it is bound to api.example, and goes over TLS only", "", ""},
		"another port":    {"api.example:8443", true, "it is bound to api.example, and this is port 8443", "ports", "8443"},
		"both, elsewhere": {"other.example:80", false, "it is bound to api.example", "hosts", "other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			to, err := authority.ParseHostPort(tc.to, 443)
			if err != nil {
				t.Fatal(err)
			}
			why, key, word := b.Refuses(secret.Request{Authority: to, Secure: tc.secure, Method: "GET"})
			if why != tc.why || key != tc.key || word != tc.word {
				t.Errorf("%q, %q, %q; want %q, %q, %q", why, key, word, tc.why, tc.key, tc.word)
			}
		})
	}
}
