package inject_test

import (
	"strings"
	"testing"

	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/secret"
)

// A secret that is bound to POST does not go out with a body that asks for DELETE.
func TestMethodOfTheBody(t *testing.T) {
	for _, tt := range []struct {
		name    string
		methods []string
		refused bool
	}{{"bound to POST", []string{"POST"}, true}, {"control: bound to both", []string{"POST", "DELETE"}, false}, {"control: bound to all", nil, false}} {
		w := newWorld(t, false, secret.Words{Hosts: []string{"example.com"}, Header: "x-api-key", Methods: tt.methods})
		to, err := authority.Parse("example.com", 443)
		if err != nil {
			t.Fatal(err)
		}
		if w.session.MethodMatters(to) != (tt.methods != nil) {
			t.Errorf("%s: whether the method matters is wrong", tt.name)
		}
		h := &verdict.HTTP{To: to, Method: "POST", Body: true}
		h.Target("/x")
		edit, also := w.session.Edit(t.Context(), h)
		m := &verdict.Message{Authority: to, Secure: true, Method: "POST", Path: "/x"}
		m.Header.Set("x-api-key", w.held.Placeholder.Text)
		if err := edit.Request(m); err != nil || strings.Contains(m.Header.Values("x-api-key")[0], w.held.Placeholder.Text) {
			t.Fatalf("%s: control: the secret did not go in: %v", tt.name, err)
		}
		with := h.With("DELETE")
		if err := also(&with); (err != nil) != tt.refused {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
