//go:build linux

package servetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// TestPeople has persons with tokens of an OpenID provider: each may do what their groups'
// roles say, for those tenants.
func TestPeople(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	idp := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256}}
	up := httptest.NewServer(idp)
	t.Cleanup(up.Close)
	idp.SetIssuer(up.URL)
	s := newServerAt(t, "", []string{"--ahead", "0"}, []string{"--oidc", up.URL, "--client", "cloister",
		"--role", "team=acme", "--role", "guests=acme:read", "--role", "both=acme", "--role", "both=other:read", "--role", "gone=gone"}, "acme", "other")
	b := s.create("acme", `{"templateID":"base","timeout":120}`)
	token := func(sub, group, client string, good time.Duration) string {
		return oidctest.SignIDToken(key, "k", oidc.ES256, fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":%q,"exp":%d,"groups":[%q]}`,
			up.URL, client, sub, time.Now().Add(good).Unix(), group))
	}
	with := func(token, tenant, method, path, body string) answer {
		return s.call(method, path, map[string]string{"Authorization": "Bearer " + token, "X-Cloister-Tenant": tenant}, body)
	}
	ann, guest, both := token("ann", "team", "cloister", time.Hour), token("gus", "guests", "cloister", time.Hour), token("bo", "both", "cloister", time.Hour)
	never := "i" + strings.Repeat("0", 19)
	for name, tt := range map[string]struct {
		token, tenant, method, path string
		status                      int
	}{
		"one of the team":                {ann, "", "GET", "/sandboxes/" + b.id, 200},
		"who changes":                    {ann, "", "POST", "/sandboxes/" + b.id + "/timeout", 204},
		"for a tenant of others":         {ann, "other", "GET", "/v2/sandboxes", 401},
		"for one that never was":         {ann, "never", "GET", "/v2/sandboxes", 401},
		"a guest":                        {guest, "", "GET", "/sandboxes/" + b.id, 200},
		"a guest who changes":            {guest, "", "DELETE", "/sandboxes/" + b.id, 403},
		"one of two tenants":             {both, "", "GET", "/v2/sandboxes", 400},
		"who says which":                 {both, "acme", "GET", "/sandboxes/" + b.id, 200},
		"and looks from the other":       {both, "other", "GET", "/sandboxes/" + b.id, 404},
		"and changes there":              {both, "other", "DELETE", "/sandboxes/" + b.id, 403},
		"of a tenant that is gone":       {token("x", "gone", "cloister", time.Hour), "", "GET", "/v2/sandboxes", 401},
		"for another client":             {token("x", "team", "other", time.Hour), "", "GET", "/v2/sandboxes", 401},
		"expired":                        {token("x", "team", "cloister", -time.Second), "", "GET", "/v2/sandboxes", 401},
		"without a role":                 {token("x", "acme", "cloister", time.Hour), "", "GET", "/v2/sandboxes", 401},
		"without a signature":            {ann[:strings.LastIndex(ann, ".")+1], "", "GET", "/v2/sandboxes", 401},
		"what never was, of a team":      {ann, "", "GET", "/sandboxes/" + never, 404},
		"a tenant's key, and its header": {s.keys["acme"], "other", "GET", "/sandboxes/" + b.id, 200},
	} {
		if a := with(tt.token, tt.tenant, tt.method, tt.path, `{"timeout":120}`); a.status != tt.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, tt.status)
		} else if a.status == 200 && tt.token == guest && strings.Contains(a.body, b.token) {
			t.Errorf("%s: it has the token that enters: %s", name, a.body)
		}
	}
	record := s.record("acme")
	if n := strings.Count(record, "tenant.person use ann at "+up.URL+", all until "); n != 1 {
		t.Errorf("%d records say that ann's token was used, want one, in\n%s", n, record)
	}
	if strings.Contains(s.record("other"), "ann at") {
		t.Error("the record of another tenant has ann")
	}
	out, err := s.command("serve", "--e2b", "127.0.0.1:0", "--oidc", "http://issuer.example", "--client", "x", "--role", "a=b").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "want https://") {
		t.Errorf("an issuer in the clear: %v: %s", err, out)
	}
}
