package people_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"cloister/serve/people"
	"cloister/serve/tenants"
)

// An issuer is an OpenID provider with one key.
type issuer struct {
	t     *testing.T
	url   string
	key   *rsa.PrivateKey
	other *rsa.PrivateKey
	p     *people.Provider
	asked atomic.Int64 // for its keys
}

func newIssuer(t *testing.T, roles ...string) *issuer {
	t.Helper()
	i := &issuer{t: t}
	for _, k := range []**rsa.PrivateKey{&i.key, &i.other} {
		var err error
		if *k, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			t.Fatal(err)
		}
	}
	// HS256 among what it says that it signs with, as careless ones do.
	s := &oidctest.Server{
		PublicKeys: []oidctest.PublicKey{{PublicKey: i.key.Public(), KeyID: "one", Algorithm: oidc.RS256}},
		Algorithms: []string{oidc.RS256, "HS256", "none"},
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "keys") {
			i.asked.Add(1)
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(up.Close)
	s.SetIssuer(up.URL)
	i.url = up.URL
	var err error
	i.p, err = people.Open(t.Context(), people.Options{Issuer: up.URL, Client: "cloister", Claim: "groups", Roles: roles})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// claims are good ones, with others instead.
func (i *issuer) claims(with map[string]any) string {
	c := map[string]any{
		"iss": i.url, "aud": "cloister", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "groups": []string{"team"},
	}
	maps.Copy(c, with)
	text, err := json.Marshal(c)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}

func (i *issuer) signed(with map[string]any) string {
	return oidctest.SignIDToken(i.key, "one", oidc.RS256, i.claims(with))
}

// TestTokens has good tokens, and those of whoever would like to be someone.
func TestTokens(t *testing.T) {
	i := newIssuer(t, "team=acme", "cn=guests,dc=example=acme:read", "cn=guests,dc=example=other:read")
	who, fresh, err := i.p.Find(t.Context(), i.signed(nil), time.Now())
	if err != nil || !fresh || who.Subject != "ann" || len(who.Roles) != 1 || who.Roles["acme"] != tenants.All {
		t.Fatalf("%+v %v %v", who, fresh, err)
	}
	if guest, _, err := i.p.Find(t.Context(), i.signed(map[string]any{"groups": "cn=guests,dc=example"}), time.Now()); err != nil ||
		len(guest.Roles) != 2 || guest.Roles["acme"] != tenants.Read {
		t.Errorf("a claim of one text: %+v %v", guest, err)
	}

	b64 := base64.RawURLEncoding.EncodeToString
	head := func(text string) string { return b64([]byte(text)) }
	body := b64([]byte(i.claims(nil)))
	public, err := x509.MarshalPKIXPublicKey(i.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	hs := func(key []byte) string {
		text := head(`{"alg":"HS256","kid":"one","typ":"JWT"}`) + "." + body
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		return text + "." + b64(mac.Sum(nil))
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own, err := json.Marshal(map[string]string{"kty": "EC", "crv": "P-256", "x": b64(ec.X.FillBytes(make([]byte, 32))), "y": b64(ec.Y.FillBytes(make([]byte, 32)))})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(i.signed(nil), ".")
	hour := time.Now().Add(time.Hour).Unix()
	for name, token := range map[string]string{
		"no algorithm":                  head(`{"alg":"none"}`) + "." + body + ".",
		"no algorithm, capitals":        head(`{"alg":"NoNe"}`) + "." + body + ".",
		"the public key as a secret":    hs(public),
		"the public key's PEM":          hs(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"an empty secret":               hs(nil),
		"another key":                   oidctest.SignIDToken(i.other, "one", oidc.RS256, i.claims(nil)),
		"another key by another name":   oidctest.SignIDToken(i.other, "two", oidc.RS256, i.claims(nil)),
		"a key that it brings":          head(`{"alg":"ES256","jwk":`+string(own)+`}`) + "." + body + "." + b64(make([]byte, 64)),
		"a key by an address":           head(`{"alg":"RS256","jku":"`+i.url+`/keys","kid":"one"}`) + "." + body + "." + b64(make([]byte, 256)),
		"what must be understood":       head(`{"alg":"RS256","kid":"one","crit":["x"],"x":1}`) + "." + body + "." + parts[2],
		"other claims":                  parts[0] + "." + b64([]byte(i.claims(map[string]any{"sub": "root"}))) + "." + parts[2],
		"no signature":                  parts[0] + "." + parts[1] + ".",
		"for another client":            i.signed(map[string]any{"aud": "other"}),
		"for no client":                 i.signed(map[string]any{"aud": nil}),
		"for two, asked for by another": i.signed(map[string]any{"aud": []string{"cloister", "other"}, "azp": "other"}),
		"for two, and no word by whom":  i.signed(map[string]any{"aud": []string{"cloister", "other"}}),
		"asked for by no text":          i.signed(map[string]any{"azp": []string{"cloister"}}),
		"of another issuer":             i.signed(map[string]any{"iss": "https://issuer.example"}),
		"of an issuer with a slash":     i.signed(map[string]any{"iss": i.url + "/"}),
		"expired":                       i.signed(map[string]any{"exp": time.Now().Add(-time.Second).Unix()}),
		"without an end":                i.signed(map[string]any{"exp": nil}),
		"good for a year":               i.signed(map[string]any{"exp": time.Now().Add(365 * 24 * time.Hour).Unix()}),
		"good later":                    i.signed(map[string]any{"nbf": hour}),
		"without a person":              i.signed(map[string]any{"sub": ""}),
		"without a group":               i.signed(map[string]any{"groups": nil}),
		"of a group without a role":     i.signed(map[string]any{"groups": []string{"acme", "TEAM", "team ", ""}}),
		"groups of other kinds":         i.signed(map[string]any{"groups": map[string]any{"team": true}}),
		"groups of two kinds":           i.signed(map[string]any{"groups": []any{"team", 1}}),
		"nothing":                       "..",
		"no token":                      "a.b.c",
		"too long":                      i.signed(map[string]any{"x": strings.Repeat("a", 20<<10)}),
	} {
		if who, _, err := i.p.Find(t.Context(), token, time.Now()); !errors.Is(err, people.ErrNone) {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	if n := i.asked.Load(); n > 2 {
		t.Errorf("the issuer was asked for its keys %d times", n)
	}

	// What is kept ends with the token, and with the clock's step.
	token := i.signed(nil)
	who, _, err = i.p.Find(t.Context(), token, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	i.p.Keep(token, who)
	if _, fresh, err := i.p.Find(t.Context(), token, time.Now()); err != nil || fresh {
		t.Errorf("kept: %v %v", fresh, err)
	}
	if _, _, err := i.p.Find(t.Context(), token, time.Now().Add(time.Hour)); !errors.Is(err, people.ErrNone) {
		t.Errorf("an hour later: %v", err)
	}
	if _, _, err := i.p.Find(t.Context(), token, time.Now().Add(-48*time.Hour)); !errors.Is(err, people.ErrNone) {
		t.Errorf("under a clock that was set back two days: %v", err)
	}
}

// TestTenants has persons of one tenant, of several and of none.
func TestTenants(t *testing.T) {
	one := people.Person{Roles: map[string]tenants.Scope{"a": tenants.Read}}
	two := people.Person{Roles: map[string]tenants.Scope{"a": tenants.Read, "b": tenants.All}}
	for _, tt := range []struct {
		who          people.Person
		named, want  string
		scope        tenants.Scope
		none, plural bool
	}{
		{one, "", "a", tenants.Read, false, false}, {one, "a", "a", tenants.Read, false, false}, {one, "b", "", "", true, false},
		{two, "b", "b", tenants.All, false, false}, {two, "", "", "", false, true}, {two, "c", "", "", true, false},
	} {
		got, scope, err := tt.who.Tenant(tt.named)
		_, several := errors.AsType[*people.Several](err)
		if got != tt.want || scope != tt.scope || errors.Is(err, people.ErrNone) != tt.none || several != tt.plural {
			t.Errorf("%q: %q %q %v", tt.named, got, scope, err)
		}
	}
}

// TestOpen has issuers and roles that cannot be.
func TestOpen(t *testing.T) {
	good := people.Options{Issuer: "https://issuer.example", Client: "c", Claim: "groups", Roles: []string{"a=b"}}
	ctx, stop := context.WithCancel(t.Context())
	stop() // none is asked
	for name, change := range map[string]func(*people.Options){
		"in the clear": func(o *people.Options) { o.Issuer = "http://issuer.example" },
		"no address":   func(o *people.Options) { o.Issuer = "issuer.example" },
		"no client":    func(o *people.Options) { o.Client = "" },
		"no role":      func(o *people.Options) { o.Roles = nil },
		"no value":     func(o *people.Options) { o.Roles = []string{"=b"} },
		"no tenant":    func(o *people.Options) { o.Roles = []string{"a="} },
		"no scope":     func(o *people.Options) { o.Roles = []string{"a=b:write"} },
		"a path":       func(o *people.Options) { o.Roles = []string{"a=../b"} },
	} {
		o := good
		change(&o)
		if _, err := people.Open(ctx, o); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
