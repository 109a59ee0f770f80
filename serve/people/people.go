// Package people knows who a person is by a token of their OpenID provider, and for which
// tenants they may act.
//
// [Open] reads the provider's description, once. [Provider.Find] verifies an ID token:
// signed by a key of the provider's with an algorithm of two keys, issued by it, for our
// client, not expired, and good for a day at most. The values of one claim are roles by a
// table of the operator's; a value that is not in the table gives nothing, so that no one
// who names groups at the provider names a tenant.
//
// The promise: a token that is not known to be good is [ErrNone], whatever is wrong with it,
// and no token has the provider asked more often than its keys are to be read. It logs no one
// in and keeps no token: who has one gets it from the provider.
//
// Most readers want [Provider.Find].
package people

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"cloister/serve/tenants"
)

// Options are who is asked, and what its answers are worth.
type Options struct {
	Issuer string // https://…, or http://… on the loopback
	Client string // that tokens are issued for
	Claim  string // whose values are roles, such as groups
	// Roles are VALUE=TENANT or VALUE=TENANT:read, of values of the claim.
	Roles []string
}

// Person is who a token is of, with a scope for each tenant.
type Person struct {
	Issuer, Subject string
	Roles           map[string]tenants.Scope
	Until           time.Time
}

// ErrNone is the error of a token that opens nothing, whatever the reason.
var ErrNone = errors.New("the token is not known")

// Bounds of tokens and of what the provider is asked.
const (
	maxToken  = 16 << 10
	longest   = 24 * time.Hour
	askWithin = 10 * time.Second
	askEvery  = 10 * time.Second // at most, whatever tokens come
	maxAnswer = 1 << 20
	maxKept   = 4096 // verified tokens
)

// algorithms are those whose keys for signing a verifier does not have.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Provider verifies the tokens of one issuer.
type Provider struct {
	o        Options
	roles    map[string]map[string]tenants.Scope // by the claim's value
	verifier *oidc.IDTokenVerifier

	mu   sync.Mutex
	kept map[[sha256.Size]byte]Person
}

// Open reads what the issuer says of itself.
func Open(ctx context.Context, o Options) (*Provider, error) {
	p := &Provider{o: o, kept: map[[sha256.Size]byte]Person{}}
	var err error
	if p.roles, err = rolesOf(o.Roles); err != nil {
		return nil, err
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, fmt.Errorf("issuer %q: want https://…: beyond the loopback its keys would come from whoever answers",
			o.Issuer)
	}
	if o.Client == "" || o.Claim == "" {
		return nil, errors.New("a client and a claim are wanted")
	}
	asked := &http.Client{Transport: &bounded{from: &http.Transport{Proxy: http.ProxyFromEnvironment}}, Timeout: askWithin,
		CheckRedirect: noRedirect}
	ctx = oidc.ClientContext(ctx, asked)
	provider, err := oidc.NewProvider(ctx, o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the issuer %s what it is: %w", o.Issuer, err)
	}
	// Not what the issuer says that it signs with: one that says HS256 would take the key
	// that everyone reads for a secret.
	p.verifier = provider.VerifierContext(context.WithoutCancel(ctx), &oidc.Config{ClientID: o.Client,
		SupportedSigningAlgs: algorithms})
	return p, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// rolesOf reads VALUE=TENANT and VALUE=TENANT:read. A value may stand for several tenants.
func rolesOf(list []string) (map[string]map[string]tenants.Scope, error) {
	out := map[string]map[string]tenants.Scope{}
	for _, text := range list {
		i := strings.LastIndex(text, "=") // a value may have one, as names of directories do
		if i < 1 {
			return nil, fmt.Errorf("role %q: want VALUE=TENANT or VALUE=TENANT:read", text)
		}
		tenant, word, limited := strings.Cut(text[i+1:], ":")
		scope := tenants.All
		if limited {
			scope = tenants.Read
		}
		if err := tenants.CheckName(tenant); err != nil || limited && word != string(tenants.Read) {
			return nil, fmt.Errorf("role %q: want VALUE=TENANT or VALUE=TENANT:read", text)
		}
		if out[text[:i]] == nil {
			out[text[:i]] = map[string]tenants.Scope{}
		}
		grant(out[text[:i]], tenant, scope)
	}
	if len(out) == 0 {
		return nil, errors.New("no role is given: VALUE=TENANT says what a value of the claim may do")
	}
	return out, nil
}

// grant gives the wider of two scopes.
func grant(roles map[string]tenants.Scope, tenant string, s tenants.Scope) {
	if roles[tenant] != tenants.All {
		roles[tenant] = s
	}
}

// IsToken reports whether a text has the form of a token, which no key of a tenant has.
func IsToken(text string) bool { return strings.Count(text, ".") == 2 }

// Find gives the person of a token, at a moment; fresh says that this token comes for the
// first time, as far as is known.
func (p *Provider) Find(ctx context.Context, token string, at time.Time) (who Person, fresh bool, err error) {
	if len(token) > maxToken {
		return Person{}, false, ErrNone
	}
	sum := sha256.Sum256([]byte(token))
	p.mu.Lock()
	who, had := p.kept[sum]
	if had && !at.Before(who.Until) {
		delete(p.kept, sum)
	}
	p.mu.Unlock()
	if had && at.Before(who.Until) && who.Until.Sub(at) <= longest {
		return who, false, nil
	}
	if who, err = p.verify(ctx, token, at); err != nil {
		return Person{}, false, err
	}
	return who, true, nil
}

// Keep remembers a token that was found, once it is recorded.
func (p *Provider) Keep(token string, who Person) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.kept) >= maxKept {
		clear(p.kept) // they are verified again
	}
	p.kept[sha256.Sum256([]byte(token))] = who
}

func (p *Provider) verify(ctx context.Context, token string, at time.Time) (Person, error) {
	t, err := p.verifier.Verify(ctx, token)
	if err != nil || t.Subject == "" || !at.Before(t.Expiry) || t.Expiry.Sub(at) > longest {
		return Person{}, ErrNone
	}
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return Person{}, ErrNone
	}
	// One for several audiences says which of them asked for it.
	var authorized string
	if raw, ok := claims["azp"]; ok && json.Unmarshal(raw, &authorized) != nil || authorized != "" &&
		authorized != p.o.Client ||
		len(t.Audience) > 1 && authorized != p.o.Client {
		return Person{}, ErrNone
	}
	who := Person{Issuer: t.Issuer, Subject: t.Subject, Until: t.Expiry, Roles: map[string]tenants.Scope{}}
	for _, value := range values(claims[p.o.Claim]) {
		for tenant, scope := range p.roles[value] {
			grant(who.Roles, tenant, scope)
		}
	}
	if len(who.Roles) == 0 {
		return Person{}, ErrNone
	}
	return who, nil
}

// values are those of a claim: a text or a list of texts.
func values(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	return nil
}

// Tenant is the tenant that a person's request is for: the one that it names, or the only
// one that they may act for.
func (w Person) Tenant(named string) (string, tenants.Scope, error) {
	if named == "" && len(w.Roles) == 1 {
		for tenant, scope := range w.Roles {
			return tenant, scope, nil
		}
	}
	if scope, ok := w.Roles[named]; ok {
		return named, scope, nil
	}
	if named == "" {
		all := make([]string, 0, len(w.Roles))
		for tenant := range w.Roles {
			all = append(all, tenant)
		}
		slices.Sort(all)
		return "", "", &Several{all}
	}
	return "", "", ErrNone
}

// Several is the error of a request that says for none of a person's tenants that it is.
type Several struct{ Tenants []string }

func (e *Several) Error() string {
	return Header + ": want one of " + strings.Join(e.Tenants, ", ")
}

// Header names the tenant that a person's request is for.
const Header = "X-Cloister-Tenant"

// noRedirect keeps an issuer's keys from another place than it names.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// bounded asks for an address once in a while, and reads so much of an answer.
type bounded struct {
	from http.RoundTripper

	mu   sync.Mutex
	last map[string]time.Time
}

var errSoon = errors.New("it was asked a moment ago")

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	now, key := time.Now(), r.URL.String()
	b.mu.Lock()
	before, had := b.last[key]
	soon := had && now.Sub(before) < askEvery
	if !soon {
		if b.last == nil {
			b.last = map[string]time.Time{}
		}
		b.last[key] = now
	}
	b.mu.Unlock()
	if soon {
		return nil, errSoon
	}
	resp, err := b.from.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}
