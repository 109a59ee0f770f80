package policy_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/policy"
)

func compile(t testing.TB, in policy.Input) *policy.Snapshot {
	t.Helper()
	s, err := policy.Compile(in)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return s
}

func connect(t testing.TB, dest string) policy.Request {
	t.Helper()
	a, err := authority.ParseHostPort(dest, 443)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Request{Action: policy.NetworkConnect, Authority: a, Session: "s1", Project: "/src/p", Agent: "claude"}
}

func decide(t testing.TB, s *policy.Snapshot, dest string) policy.Verdict {
	t.Helper()
	return policy.Decide(s, connect(t, dest))
}

func yaml(line int) source.Position {
	return source.Position{Source: "config.yaml", File: "/home/u/.config/cloister/config.yaml", Line: line, Column: 5}
}

func TestZeroDenies(t *testing.T) {
	var v policy.Verdict
	if v.Effect != policy.Deny {
		t.Fatalf("zero verdict: %v", v.Effect)
	}
	var s *policy.Snapshot
	req := connect(t, "a.test")
	if v := policy.Decide(s, req); v.Effect != policy.Deny || v.Reason == "" {
		t.Fatalf("nil snapshot: %+v", v)
	}
	if s.Digest() != "" || s.Cedar() != "" || s.Mode() != policy.Enforce || s.Statements() != nil || s.Warnings() != nil {
		t.Fatal("nil snapshot: a method gives something")
	}
	if e := policy.Explain(nil, req); e.Verdict.Effect != policy.Deny {
		t.Fatalf("nil snapshot explained: %+v", e)
	}
	wide := compile(t, policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "a.test"}}})
	for name, r := range map[string]policy.Request{
		"zero request":    {},
		"zero action":     {Authority: req.Authority},
		"unknown action":  {Action: 200, Authority: req.Authority},
		"zero authority":  {Action: policy.NetworkConnect},
		"resolve nothing": {Action: policy.NetworkResolve},
	} {
		if v := policy.Decide(wide, r); v.Effect != policy.Deny || v.Reason == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	empty := compile(t, policy.Input{})
	if v := decide(t, empty, "a.test"); v.Effect != policy.Deny || v.Rule != "unlisted" {
		t.Fatalf("empty input: %+v", v)
	}
}

func TestDecideOrder(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "*.example.com", Origin: yaml(1)},
		{Effect: policy.Allow, Domain: "example.com", Origin: yaml(2)},
		{Effect: policy.Ask, Domain: "ask.example.com", Origin: yaml(3)},
		{Effect: policy.Ask, Domain: "*.bad.example.com", Origin: yaml(4)},
		{Effect: policy.Deny, Domain: "*.bad.example.com", Origin: yaml(5)},
		{Effect: policy.Allow, Domain: "ssh.test", Ports: []uint16{22}, Origin: yaml(6)},
		{Effect: policy.Deny, Domain: "ssh.test", Ports: []uint16{443}, Origin: yaml(7)},
		{Effect: policy.Allow, CIDR: "203.0.113.0/24", Origin: yaml(8)},
		{Effect: policy.Deny, CIDR: "203.0.113.128/25", Origin: yaml(9)},
		{Effect: policy.Allow, Domain: "198.51.100.7", Origin: yaml(10)},
		{Effect: policy.Allow, CIDR: "2001:db8::/32", Ports: []uint16{8080}, Origin: yaml(11)},
		{Effect: policy.Deny, Domain: "*.zip", Origin: yaml(12)},
		{Effect: policy.Allow, Domain: "BÜCHER.example", Origin: yaml(13)},
	}, Unlisted: policy.Ask})
	tests := []struct {
		dest string
		want policy.Effect
		line int
	}{
		{"www.example.com", policy.Allow, 1},
		{"a.b.example.com", policy.Allow, 1},
		{"WWW.EXAMPLE.COM.", policy.Allow, 1},
		{"www.example.com:80", policy.Allow, 1},
		{"www.example.com:22", policy.Ask, 1}, // unlisted; the place of the rule that has other ports
		{"example.com", policy.Allow, 2},
		{"evil-example.com", policy.Ask, 0},
		{"example.com.evil.test", policy.Ask, 0},
		{"ask.example.com", policy.Ask, 3},
		{"x.bad.example.com", policy.Deny, 5},
		{"x.bad.example.com:22", policy.Deny, 5},
		{"bad.example.com", policy.Allow, 1},
		{"ssh.test:22", policy.Allow, 6},
		{"ssh.test:443", policy.Deny, 7},
		{"ssh.test:80", policy.Ask, 6},
		{"203.0.113.5", policy.Allow, 8},
		{"[::ffff:203.0.113.5]:443", policy.Allow, 8},
		{"203.0.113.200", policy.Deny, 9},
		{"203.0.113.200:5432", policy.Deny, 9},
		{"198.51.100.7:80", policy.Allow, 10},
		{"198.51.100.8:80", policy.Deny, 0}, // unlisted names ask, addresses never
		{"[2001:db8::5]:8080", policy.Allow, 11},
		{"[2001:db8::5]:443", policy.Deny, 11},
		{"evil.zip", policy.Deny, 12},
		{"xn--bcher-kva.example", policy.Allow, 13},
	}
	for _, tt := range tests {
		t.Run(tt.dest, func(t *testing.T) {
			v := decide(t, s, tt.dest)
			if v.Effect != tt.want || v.Origin.Line != tt.line {
				t.Fatalf("got %s by %q at line %d, want %s at line %d", v.Effect, v.Rule, v.Origin.Line, tt.want, tt.line)
			}
			if v.Reason == "" || v.Rule == "" || v.WouldDeny || v.Diagnostic != "" {
				t.Fatalf("incomplete verdict: %+v", v)
			}
			if (v.Effect == policy.Allow) != (len(v.Hints) == 0) {
				t.Fatalf("hints: %q", v.Hints)
			}
			e := policy.Explain(s, connect(t, tt.dest))
			if diff := cmp.Diff(v, e.Verdict); diff != "" {
				t.Fatalf("Explain disagrees: %s", diff)
			}
		})
	}
}

func TestResolveIsBestOverPorts(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "ssh.test", Ports: []uint16{22}},
		{Effect: policy.Deny, Domain: "ssh.test", Ports: []uint16{80, 443}},
		{Effect: policy.Ask, Domain: "*.ask.test", Ports: []uint16{5432}},
		{Effect: policy.Deny, Domain: "gone.test"},
		{Effect: policy.Allow, Domain: "gone.test"},
		{Effect: policy.Deny, Domain: "half.test", Ports: []uint16{443, 80, 1, 2, 3}},
	}, Cedar: []policy.CedarFile{{Name: "p.cedar", Text: []byte(`
		permit (principal, action == Action::"NetworkConnect", resource) when { resource in [Host::"db.test:5432"] };
		permit (principal, action == Action::"NetworkConnect", resource) when { resource in [Host::"hi.test"] && context.port > 60000 };
	`)}}})
	tests := []struct {
		host     string
		deny, on policy.Effect // with unlisted deny, unlisted ask
	}{
		{"ssh.test", policy.Allow, policy.Allow},
		{"x.ask.test", policy.Ask, policy.Ask},
		{"gone.test", policy.Deny, policy.Deny},
		{"half.test", policy.Deny, policy.Ask},
		{"db.test", policy.Allow, policy.Allow},
		{"hi.test", policy.Allow, policy.Allow},
		{"nobody.test", policy.Deny, policy.Ask},
	}
	for _, tt := range tests {
		r := connect(t, tt.host)
		r.Action = policy.NetworkResolve
		if v := policy.Decide(s, r); v.Effect != tt.deny || v.Reason == "" {
			t.Errorf("%s: %+v, want %s", tt.host, v, tt.deny)
		}
		r.Authority = r.Authority.WithPort(9999) // says nothing
		if v := policy.Decide(s, r); v.Effect != tt.deny {
			t.Errorf("%s: the request's port changed the answer", tt.host)
		}
	}
	s = compile(t, policy.Input{Unlisted: policy.Ask, Rules: []policy.Rule{
		{Effect: policy.Deny, Domain: "gone.test"},
		{Effect: policy.Deny, Domain: "half.test", Ports: []uint16{443, 80, 1, 2, 3}},
	}})
	for host, want := range map[string]policy.Effect{"gone.test": policy.Deny, "half.test": policy.Ask, "nobody.test": policy.Ask} {
		r := connect(t, host)
		r.Action = policy.NetworkResolve
		if v := policy.Decide(s, r); v.Effect != want {
			t.Errorf("%s with unlisted ask: %+v, want %s", host, v, want)
		}
	}
}

func TestModes(t *testing.T) {
	rules := []policy.Rule{{Effect: policy.Allow, Domain: "ok.test"}, {Effect: policy.Deny, Domain: "no.test"}, {Effect: policy.Ask, Domain: "ask.test"}}
	for _, mode := range []policy.Mode{policy.Shadow, policy.Record} {
		s := compile(t, policy.Input{Rules: rules, Mode: mode})
		for dest, would := range map[string]bool{"ok.test": false, "no.test": true, "ask.test": true, "other.test": true} {
			v := decide(t, s, dest)
			if v.Effect != policy.Allow || v.WouldDeny != would {
				t.Errorf("%s %s: %+v", mode, dest, v)
			}
			if would && (v.Reason == "" || len(v.Hints) == 0) {
				t.Errorf("%s %s: says nothing of what enforce would do", mode, dest)
			}
			if e := policy.Explain(s, connect(t, dest)); (e.Enforced.Effect == policy.Allow) == would {
				t.Errorf("%s %s: enforced %s", mode, dest, e.Enforced.Effect)
			}
		}
	}
}

func TestWith(t *testing.T) {
	base := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Ask, Domain: "*.example.com"},
		{Effect: policy.Deny, Domain: "no.test"},
		{Effect: policy.Allow, Domain: "ok.test"},
	}})
	shadow, enforce := policy.Shadow, policy.Enforce
	flag := func(e policy.Effect, d string) policy.Rule {
		return policy.Rule{Effect: e, Domain: d, Origin: source.Position{Source: "--" + e.String()}}
	}
	s, err := base.With([]policy.Rule{flag(policy.Allow, "www.example.com"), flag(policy.Allow, "no.test"), flag(policy.Deny, "ok.test")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for dest, want := range map[string]policy.Effect{
		"www.example.com": policy.Allow, // a person's word stands before ask
		"x.example.com":   policy.Ask,
		"no.test":         policy.Deny, // but not before a forbid
		"ok.test":         policy.Deny,
	} {
		if v := decide(t, s, dest); v.Effect != want {
			t.Errorf("%s: %+v, want %s", dest, v, want)
		}
	}
	if v := decide(t, base, "ok.test"); v.Effect != policy.Allow {
		t.Error("With changed its receiver")
	}
	if s.Digest() == base.Digest() {
		t.Error("other rules, same digest")
	}
	if same, err := base.With(nil, &enforce); err != nil || same != base {
		t.Errorf("With of nothing: %v %v", same, err)
	}
	sh, err := base.With(nil, &shadow)
	if err != nil || sh.Mode() != policy.Shadow || sh.Digest() == base.Digest() || base.Mode() != policy.Enforce {
		t.Errorf("With a mode: %v", err)
	}
	if _, err := base.With([]policy.Rule{flag(policy.Allow, "*")}, nil); err == nil {
		t.Error("--allow '*' was accepted")
	}
	bad := policy.Mode(9)
	if _, err := base.With(nil, &bad); err == nil {
		t.Error("an unknown mode was accepted")
	}
	var none *policy.Snapshot
	if _, err := none.With(nil, nil); err == nil {
		t.Error("With of nil was accepted")
	}
	// Two sessions from one snapshot must not share memory, however deep.
	for _, d := range []string{"one.test", "two.test", "three.test"} {
		if s, err = s.With([]policy.Rule{flag(policy.Allow, d)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	a, errA := s.With([]policy.Rule{flag(policy.Allow, "a.test")}, nil)
	b, errB := s.With([]policy.Rule{flag(policy.Allow, "b.test")}, nil)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if decide(t, a, "b.test").Effect == policy.Allow || decide(t, b, "a.test").Effect == policy.Allow {
		t.Error("one session's flags reach another")
	}
	if !strings.Contains(a.Cedar(), "a.test") || strings.Contains(a.Cedar(), "b.test") {
		t.Error("one session's flags are printed in another")
	}
}

func TestDigest(t *testing.T) {
	rules := []policy.Rule{
		{Effect: policy.Allow, Domain: "a.test", Origin: yaml(1)},
		{Effect: policy.Deny, Domain: "b.test", Ports: []uint16{22, 23}, Origin: yaml(2)},
		{Effect: policy.Ask, CIDR: "203.0.113.0/24", Origin: yaml(3)},
	}
	base := compile(t, policy.Input{Rules: rules})
	other := slices.Clone(rules)
	slices.Reverse(other)
	other[0].Origin, other[1].Ports, other[2].Domain, other[2].Ports = yaml(99), []uint16{23, 22, 22}, "A.test.", []uint16{80, 443}
	if got := compile(t, policy.Input{Rules: other}).Digest(); got != base.Digest() {
		t.Errorf("the same rules spelled otherwise: %s and %s", got, base.Digest())
	}
	if !strings.HasPrefix(base.Digest(), "sha256:") || len(base.Digest()) != 7+64 {
		t.Errorf("digest %q", base.Digest())
	}
	seen := map[string]string{base.Digest(): "base"}
	cedarFile := []policy.CedarFile{{Name: "x", Text: []byte("forbid(principal,action,resource);")}}
	for name, in := range map[string]policy.Input{
		"empty":     {},
		"mode":      {Rules: rules, Mode: policy.Shadow},
		"unlisted":  {Rules: rules, Unlisted: policy.Ask},
		"cedar":     {Rules: rules, Cedar: cedarFile},
		"fewer":     {Rules: rules[:2]},
		"all ports": {Rules: []policy.Rule{rules[0], {Effect: policy.Deny, Domain: "b.test"}, rules[2]}},
		"web ports": {Rules: []policy.Rule{rules[0], {Effect: policy.Deny, Domain: "b.test", Ports: []uint16{443, 80}}, rules[2]}},
	} {
		d := compile(t, in).Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[d] = name
	}
}

func TestCompileRefuses(t *testing.T) {
	o := yaml(7)
	tests := []struct {
		name      string
		rule      policy.Rule
		msg, hint string
	}{
		{"nothing", policy.Rule{}, "must name a domain or a cidr", "domain:"},
		{"both", policy.Rule{Domain: "a.test", CIDR: "203.0.113.0/24"}, "not both", ""},
		{"star", policy.Rule{Effect: policy.Allow, Domain: "*"}, "every host", ""},
		{"top level", policy.Rule{Effect: policy.Allow, Domain: "*.com"}, "too broad", ""},
		{"public suffix", policy.Rule{Effect: policy.Allow, Domain: "*.co.uk"}, "too broad", ""},
		{"not a host", policy.Rule{Effect: policy.Allow, Domain: "a_b.test"}, "no letter", ""},
		{"NUL", policy.Rule{Effect: policy.Allow, Domain: "a\x00.test"}, "control", ""},
		{"odd v4", policy.Rule{Effect: policy.Deny, Domain: "0x7f.1"}, "IPv4", ""},
		{"port in domain", policy.Rule{Effect: policy.Allow, Domain: "a.test:22"}, "port", ""},
		{"range as domain", policy.Rule{Effect: policy.Allow, Domain: "10.0.0.0/8"}, "range", "cidr: 10.0.0.0/8"},
		{"port 0", policy.Rule{Effect: policy.Allow, Domain: "a.test", Ports: []uint16{443, 0}}, "port 0", ""},
		{"no ports", policy.Rule{Effect: policy.Allow, Domain: "a.test", Ports: []uint16{}}, "empty", "leave it out"},
		{"effect", policy.Rule{Effect: 9, Domain: "a.test"}, "unknown effect", "allow, ask or deny"},
		{"cidr without length", policy.Rule{CIDR: "203.0.113.7"}, "no length", "203.0.113.7/32"},
		{"cidr garbage", policy.Rule{CIDR: "example.com/8"}, "not an address", ""},
		{"cidr with host bits", policy.Rule{CIDR: "203.0.113.7/24"}, "bits set", "203.0.113.0/24"},
		{"cidr mapped", policy.Rule{CIDR: "::ffff:203.0.113.0/120"}, "IPv4", ""},
		{"cidr everything", policy.Rule{Effect: policy.Allow, CIDR: "0.0.0.0/0"}, "too broad", ""},
		{"cidr everything v6", policy.Rule{Effect: policy.Allow, CIDR: "::/0"}, "too broad", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Origin = o
			s, err := policy.Compile(policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "fine.test"}, tt.rule}})
			var se *source.Problem
			if s != nil || !errors.As(err, &se) {
				t.Fatalf("got %v, %v", s, err)
			}
			if se.File != o.File || se.Line != 7 || se.Column != 5 || !strings.Contains(se.Msg, tt.msg) || !strings.Contains(se.Hint, tt.hint) {
				t.Fatalf("got %+v, want msg %q hint %q", se, tt.msg, tt.hint)
			}
			if !strings.HasPrefix(err.Error(), o.File+":7:5: ") {
				t.Fatalf("message %q", err)
			}
		})
	}
	if _, err := policy.Compile(policy.Input{Unlisted: policy.Allow}); err == nil {
		t.Error("unlisted allow was accepted")
	}
	if _, err := policy.Compile(policy.Input{Mode: 7}); err == nil {
		t.Error("an unknown mode was accepted")
	}
	_, err := policy.Compile(policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "*", Origin: yaml(1)}, {Effect: policy.Allow, Domain: "x_y", Origin: yaml(2)}}})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not every problem is reported: %v", err)
	}
	_, err = policy.Compile(policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "*", Origin: source.Position{Source: "--allow"}}}})
	if err == nil || !strings.HasPrefix(err.Error(), "--allow: ") {
		t.Errorf("a flag is not named: %v", err)
	}
}

// TestHintsAllow: the words of a hint, followed to the letter, do allow.
func TestHintsAllow(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Ask, Domain: "*.ask.test", Origin: yaml(2)},
		{Effect: policy.Allow, Domain: "web.test", Origin: yaml(3)},
	}})
	tests := []struct {
		dest, flag, yaml string
	}{
		{"example.com", "cloister run --allow example.com -- CMD", "or for good, in config.yaml: proxy: {allow: [{domain: example.com}]}"},
		{"example.com:80", "cloister run --allow example.com -- CMD", "or for good, in config.yaml: proxy: {allow: [{domain: example.com}]}"},
		{"example.com:5432", "cloister run --allow example.com:5432 -- CMD", "or for good, in config.yaml: proxy: {allow: [{domain: example.com, ports: [5432]}]}"},
		{"bücher.example", "cloister run --allow xn--bcher-kva.example -- CMD", "or for good, in config.yaml: proxy: {allow: [{domain: xn--bcher-kva.example}]}"},
		{"web.test:22", "cloister run --allow web.test:22 -- CMD", "or for good, in config.yaml: proxy: {allow: [{domain: web.test, ports: [22]}]}"},
		{"x.ask.test", "cloister run --allow x.ask.test -- CMD", "to allow it for good, make the ask rule at /home/u/.config/cloister/config.yaml:2:5 an allow rule"},
		{"203.0.113.7", "cloister run --allow 203.0.113.7 -- CMD", "or for good, in config.yaml: proxy: {allow: [{cidr: 203.0.113.7/32}]}"},
		{"[2001:db8::1]:443", "cloister run --allow [2001:db8::1] -- CMD", `or for good, in config.yaml: proxy: {allow: [{cidr: "2001:db8::1/128"}]}`},
		{"[2001:db8::1]:22", "cloister run --allow [2001:db8::1]:22 -- CMD", `or for good, in config.yaml: proxy: {allow: [{cidr: "2001:db8::1/128", ports: [22]}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.dest, func(t *testing.T) {
			v := decide(t, s, tt.dest)
			if diff := cmp.Diff([]string{tt.flag, tt.yaml}, v.Hints); diff != "" {
				t.Fatal(diff)
			}
			word := strings.TrimSuffix(strings.TrimPrefix(v.Hints[0], "cloister run --allow "), " -- CMD")
			a, err := authority.ParseHostPort(word, 443)
			if err != nil {
				t.Fatalf("the flag's word: %v", err)
			}
			r := policy.Rule{Effect: policy.Allow, Domain: a.Host()}
			if a.Port() != 443 {
				r.Ports = []uint16{a.Port()}
			}
			with, err := s.With([]policy.Rule{r}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v := decide(t, with, tt.dest); v.Effect != policy.Allow {
				t.Fatalf("following the hint: %+v", v)
			}
		})
	}
	for _, private := range []string{"127.0.0.1", "10.0.0.1:5432", "169.254.169.254", "[::1]:80", "[fd00::1]:443"} {
		v := decide(t, s, private)
		if len(v.Hints) != 1 || !strings.Contains(v.Hints[0], "proxy: {hosts: {NAME: ") {
			t.Errorf("%s: hints %q promise what egress refuses", private, v.Hints)
		}
	}
	denied := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Deny, Domain: "no.test", Origin: yaml(4)},
		{Effect: policy.Deny, Domain: "flag.test", Origin: source.Position{Source: "--deny"}},
	}})
	if v := decide(t, denied, "no.test"); len(v.Hints) != 1 || !strings.Contains(v.Hints[0], "config.yaml:4:5") || strings.Contains(v.Hints[0], "--allow") {
		t.Errorf("a forbid's hint: %q", v.Hints)
	}
	if v := decide(t, denied, "flag.test"); len(v.Hints) != 1 || !strings.Contains(v.Hints[0], "leave out --deny flag.test") {
		t.Errorf("a flag's hint: %q", v.Hints)
	}
}

func TestExplainListsEveryMatchInOrder(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "*.example.com", Origin: yaml(1)},
		{Effect: policy.Allow, Domain: "api.example.com", Origin: yaml(2)},
		{Effect: policy.Allow, Domain: "api.example.com", Ports: []uint16{22}, Origin: yaml(3)},
		{Effect: policy.Ask, Domain: "*.example.com", Origin: yaml(4)},
		{Effect: policy.Deny, Domain: "other.test", Origin: yaml(5)},
	}, Cedar: []policy.CedarFile{{Name: "my.cedar", Text: []byte(
		"@id(\"no api\")\nforbid (principal, action == Action::\"NetworkConnect\", resource == Host::\"api.example.com\");\n" +
			"permit (principal, action == Action::\"NetworkConnect\", resource);")}}})
	e := policy.Explain(s, connect(t, "api.example.com"))
	type row struct {
		Effect  policy.Effect
		Rule    string
		Line    int
		Decides bool
		Wrong   bool
	}
	var got []row
	for _, m := range e.Matches {
		got = append(got, row{m.Effect, m.Rule, m.Origin.Line, m.Decides, m.WrongPort})
	}
	want := []row{
		{policy.Deny, "no api", 1, true, false},
		{policy.Ask, "ask *.example.com", 4, false, false},
		{policy.Allow, "allow api.example.com", 2, false, false},
		{policy.Allow, "allow *.example.com", 1, false, false},
		{policy.Allow, "my.cedar#2", 3, false, false},
		{policy.Allow, "allow api.example.com port 22", 3, false, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	text := e.String()
	for _, part := range []string{"deny api.example.com:443", "my.cedar:1:1", "> deny", "another port"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

func TestRunTests(t *testing.T) {
	s := compile(t, policy.Input{Mode: policy.Shadow, Rules: []policy.Rule{{Effect: policy.Allow, Domain: "ok.test", Ports: []uint16{443, 22}}}})
	res := policy.RunTests(s, []policy.Test{
		{Name: "default port", Connect: "ok.test", Want: policy.Allow},
		{Name: "port", Connect: "ok.test:22", Want: policy.Allow},
		{Name: "shadow does not count", Connect: "no.test", Want: policy.Deny},
		{Name: "wrong", Connect: "no.test", Want: policy.Allow},
		{Name: "no host", Connect: "0x7f.1", Want: policy.Deny},
	})
	var got []bool
	for _, r := range res {
		got = append(got, r.Pass)
	}
	if diff := cmp.Diff([]bool{true, true, true, false, false}, got); diff != "" {
		t.Fatal(diff)
	}
	if res[4].Err == nil || res[3].Verdict.Reason == "" {
		t.Fatalf("unexplained: %+v", res)
	}
	if res := policy.RunTests(nil, []policy.Test{{Name: "none", Connect: "ok.test", Want: policy.Allow}}); res[0].Pass {
		t.Fatal("a test passed without a policy")
	}
}

func TestShuffleChangesNothing(t *testing.T) { // PO-05
	rules := []policy.Rule{
		{Effect: policy.Allow, Domain: "*.example.com"}, {Effect: policy.Deny, Domain: "a.example.com"},
		{Effect: policy.Ask, Domain: "*.b.example.com"}, {Effect: policy.Allow, Domain: "a.example.com", Ports: []uint16{22}},
		{Effect: policy.Deny, CIDR: "203.0.113.0/25"}, {Effect: policy.Allow, CIDR: "203.0.113.0/24"},
		{Effect: policy.Ask, CIDR: "203.0.113.64/26"}, {Effect: policy.Deny, Domain: "*.c.example.com", Ports: []uint16{80}},
	}
	files := []policy.CedarFile{
		{Name: "1", Text: []byte(`permit(principal, action == Action::"NetworkConnect", resource in Host::"*.test");`)},
		{Name: "2", Text: []byte(`forbid(principal, action == Action::"NetworkConnect", resource in Host::"*.no.test");`)},
		{Name: "3", Text: []byte(`@ask permit(principal, action == Action::"NetworkConnect", resource in Host::"*.ask.test");`)},
	}
	dests := []string{
		"x.example.com", "a.example.com", "a.example.com:22", "q.b.example.com", "c.c.example.com:80", "c.c.example.com",
		"203.0.113.1", "203.0.113.200", "203.0.113.70", "x.test", "x.no.test", "x.ask.test", "x.test:22",
	}
	base := compile(t, policy.Input{Rules: rules, Cedar: files})
	want := map[string]policy.Effect{}
	for _, d := range dests {
		want[d] = decide(t, base, d).Effect
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		rng.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		s := compile(t, policy.Input{Rules: rules, Cedar: files})
		if s.Digest() != base.Digest() {
			t.Fatal("the digest depends on the order")
		}
		for _, d := range dests {
			if got := decide(t, s, d).Effect; got != want[d] {
				t.Fatalf("%s: %s, before %s", d, got, want[d])
			}
		}
	}
}

func TestParseWords(t *testing.T) {
	for _, e := range []policy.Effect{policy.Deny, policy.Ask, policy.Allow} {
		if got, err := policy.ParseEffect(e.String()); err != nil || got != e {
			t.Error(e, got, err)
		}
	}
	for _, m := range []policy.Mode{policy.Enforce, policy.Shadow, policy.Record} {
		if got, err := policy.ParseMode(m.String()); err != nil || got != m {
			t.Error(m, got, err)
		}
	}
	if _, err := policy.ParseEffect("permit"); err == nil {
		t.Error("permit")
	}
	if _, err := policy.ParseMode(""); err == nil {
		t.Error("empty mode")
	}
}
