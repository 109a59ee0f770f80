package realtest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A credential that the service refuses is named when the session is over, with what to
// do; one that it takes after all is not.
func TestRefusedCredential(t *testing.T) {
	w := newWorld(t)
	need(t, "curl", "curl")
	var valid atomic.Bool
	w.net.handle("api.anthropic.com", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/renew" {
			valid.Store(true)
		}
		if !valid.Load() {
			rw.WriteHeader(http.StatusUnauthorized)
		}
	}))
	w.opened()
	valid.Store(true)
	w.setUp("claude", canaryKey)
	valid.Store(false) // as of a key that was taken back
	const (
		asks    = `curl -s -o /dev/null -w '%{http_code} ' -H "x-api-key: $ANTHROPIC_API_KEY" https://api.anthropic.com/`
		refused = "cloister: api.anthropic.com refuses the secret ANTHROPIC_API_KEY: 401 Unauthorized\n" +
			"hint: where it is no longer valid, store another value: cloister secret set ANTHROPIC_API_KEY\n"
	)
	res := w.cloister(t.Context(), "run", "--", "sh", "-c", asks+"; "+asks)
	if res.stdout != "401 401 " || strings.Count(res.stderr, refused) != 1 {
		t.Errorf("said %q; stderr: %s", res.stdout, res.stderr)
	}
	res = w.cloister(t.Context(), "run", "--", "sh", "-c", asks+"; "+asks+"renew")
	if res.stdout != "401 200 " || strings.Contains(res.stderr, "refuses the secret") {
		t.Errorf("said %q; stderr: %s", res.stdout, res.stderr)
	}
}
