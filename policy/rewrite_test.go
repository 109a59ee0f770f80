package policy_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"cloister/internal/source"
	"cloister/policy"
)

func rewriteInput() policy.Input {
	origin := source.Position{Source: "config.yaml", File: "config.yaml", Line: 3}
	return policy.Input{
		Rules: []policy.Rule{
			{Effect: policy.Allow, Domain: "api.test"},
			{Effect: policy.Allow, Domain: "quiet.test"},
			{Effect: policy.Allow, Domain: "leash.test"},
			{Effect: policy.Allow, Domain: "torn.test"},
			{Effect: policy.Allow, Domain: "pinned.test", Tunnel: true},
			{Effect: policy.Ask, Domain: "asked.test"},
		},
		Rewrites: []policy.RewriteRule{
			{Rule: policy.Rule{Domain: "api.test", Methods: []string{"GET"}, Origin: origin}, Set: map[string]string{"X-Team": "blue", "X-Both": "yaml"}, Remove: []string{"Cookie"}},
			{Rule: policy.Rule{Domain: "api.test", Paths: []string{"/v1/**"}, Origin: origin}, Set: map[string]string{"x-team": "red"}},
			{Rule: policy.Rule{Domain: "pinned.test", Origin: origin}, Remove: []string{"A"}},
			{Rule: policy.Rule{Domain: "asked.test", Origin: origin}, Remove: []string{"A"}},
		},
		Cedar: []policy.CedarFile{{Name: "c", Text: []byte(`
			permit (principal, action == Action::"HttpRewrite", resource == Host::"leash.test")
			when { context.header == "X-Leash-Auth" && context.value == "service-token" };
			permit (principal in Agent::"claude", action == Action::"HttpRewrite", resource)
			when { resource in [Host::"leash.test", Host::"api.test"] && "x-both" == context.header && context.method != "POST" && context.value == "cedar" && context.segments.hasTag("0") };
			permit (principal in Agent::"other", action == Action::"HttpRewrite", resource == Host::"leash.test")
			when { context.header == "X-Other" && context.value == "no" };
			permit (principal, action == Action::"HttpRewrite", resource == Host::"leash.test")
			when { context.header == "Cookie" } when { context.value == "" };
			forbid (principal, action == Action::"HttpRewrite", resource)
			when { ["COOKIE", "Set-Cookie"].contains(context.header) && context.headers.hasTag("x-keep") };
			permit (principal, action == Action::"HttpRewrite", resource == Host::"torn.test")
			when { context.header == "A" && context.value == "b" && context.depth * 9223372036854775807 > 0 };
		`)}},
	}
}

func changesOf(v policy.Verdict) string {
	var out []string
	for _, c := range v.Rewrites {
		if c.Rule == "" || c.Origin.Line == 0 {
			out = append(out, "nobody's")
		}
		out = append(out, strings.TrimSuffix(fmt.Sprintf("%s=%s", c, c.Value), "="))
	}
	return strings.Join(out, ", ")
}

func TestRewrites(t *testing.T) {
	s := compile(t, rewriteInput())
	in := rewriteInput()
	in.Rewrites, in.Cedar = nil, []policy.CedarFile{{Name: "printed", Text: []byte(s.Cedar())}}
	printed := compile(t, in)
	for _, tt := range []struct {
		line   string
		fields []string
		want   string
		effect string // allow unless said
		yaml   bool   // a pinned host cannot be said in Cedar
	}{
		{line: "GET api.test/", want: "sets X-Both=yaml, sets X-Team=blue, removes Cookie"},
		{line: "GET api.test/v1/x", want: "sets X-Both=yaml, sets X-Team=blue, removes Cookie"},
		{line: "GET api.test/", fields: []string{"X-Keep: 1"}, want: "sets X-Both=yaml, sets X-Team=blue"},
		{line: "POST api.test/v1/x", want: "sets x-team=red"},
		{line: "PUT api.test/x", want: "sets x-both=cedar"},
		{line: "GET leash.test/", want: "sets X-Leash-Auth=service-token, removes Cookie"},
		{line: "GET leash.test/a", fields: []string{"x-keep: 1"}, want: "sets X-Leash-Auth=service-token, sets x-both=cedar"},
		{line: "GET quiet.test/"},
		{line: "GET torn.test/", want: ""},
		{line: "GET torn.test/a/b", effect: "deny"},
		{line: "GET leash.test/%00", effect: "deny"},
		{line: "GET pinned.test/", effect: "deny", yaml: true},
		{line: "GET asked.test/", want: "removes A", effect: "ask"},
		{line: "GET unknown.test/", effect: "deny"},
	} {
		for name, snapshot := range map[string]*policy.Snapshot{"rules": s, "printed": printed} {
			if name == "printed" && tt.yaml {
				continue
			}
			want := cmp.Or(tt.effect, "allow")
			v := policy.Decide(snapshot, ask(t, tt.line, tt.fields...))
			if got := changesOf(v); v.Effect.String() != want || got != tt.want && name == "rules" {
				t.Errorf("%s: %s %v: %s, %q, want %s, %q: %s %s", name, tt.line, tt.fields, v.Effect, got, want, tt.want, v.Reason, v.Diagnostic)
			}
		}
	}
	for host, want := range map[string]bool{"api.test": true, "leash.test": true, "quiet.test": false, "asked.test": true} {
		v := policy.Decide(s, connect(t, host))
		if v.Inspect != want || v.Judged {
			t.Errorf("%s: inspect %t, judged %t", host, v.Inspect, v.Judged)
		}
	}
	x := policy.Explain(s, ask(t, "POST api.test/v1/x")).String()
	if !strings.Contains(x, "+ sets x-team  rewrite api.test /v1/**  (config.yaml:3)") {
		t.Error(x)
	}
}

// Another value is another policy, though the words are the same.
func TestRewriteDigest(t *testing.T) {
	in := rewriteInput()
	before := compile(t, in).Digest()
	in.Rewrites[0].Set["X-Team"] = "green"
	if compile(t, in).Digest() == before {
		t.Error("the digest does not know values")
	}
}

func TestBadRewrites(t *testing.T) {
	for msg, w := range map[string]policy.RewriteRule{
		"sets or removes a header": {},
		"the gate's own":           {Set: map[string]string{"content-length": "1"}},
		"no name of a header":      {Remove: []string{"a b"}},
		"control character":        {Set: map[string]string{"A": "b\r\nC: d"}},
		"stands here twice":        {Set: map[string]string{"A": "b"}, Remove: []string{"a"}},
		"belong to an allow rule":  {Rule: policy.Rule{Bytes: 1}, Set: map[string]string{"A": "b"}},
		"methods are written":      {Rule: policy.Rule{Methods: []string{"get"}}, Set: map[string]string{"A": "b"}},
	} {
		w.Domain, w.Origin = "a.test", source.Position{File: "config.yaml", Line: 7}
		_, err := policy.Compile(policy.Input{Rewrites: []policy.RewriteRule{w}})
		if err == nil || !strings.Contains(explained(err), msg) || !strings.HasPrefix(err.Error(), "config.yaml:7") {
			t.Errorf("want %q: %v", msg, err)
		}
	}
	for text, msg := range map[string]string{
		`@ask permit (principal, action == Action::"HttpRewrite", resource == Host::"a.test") when { context.header == "A" && context.value == "b" };`: "nobody is asked",
		`permit (principal, action == Action::"HttpRewrite", resource == Host::"a.test") when { context.header == "Host" && context.value == "b" };`:   "gate's own",
		`permit (principal, action == Action::"HttpRewrite", resource == Host::"a.test") when { context.haeder == "A" };`:                              "unknown attribute",
	} {
		_, err := policy.Compile(policy.Input{Cedar: []policy.CedarFile{{Name: "c", Text: []byte(text)}}})
		if err == nil || !strings.Contains(err.Error(), msg) {
			t.Errorf("want %q: %v", msg, err)
		}
	}
	s := compile(t, policy.Input{Cedar: []policy.CedarFile{{Name: "c", Text: []byte(`permit (principal, action == Action::"HttpRewrite", resource == Host::"a.test");`)}}})
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0].Msg, "changes nothing") {
		t.Errorf("%+v", w)
	}
}
