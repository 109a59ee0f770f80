package policy_test

import (
	"iter"
	"strconv"
	"strings"
	"testing"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/internal/urlpath"
	"cloister/policy"
)

// ask makes a request of "METHOD host[:port]/path[?query]" with fields
// "name: value".
func ask(t *testing.T, line string, fields ...string) policy.Request {
	t.Helper()
	method, rest, _ := strings.Cut(line, " ")
	host, path, _ := strings.Cut(rest, "/")
	path, query, _ := strings.Cut("/"+path, "?")
	a, err := authority.ParseHostPort(host, 443)
	if err != nil {
		t.Fatal(err)
	}
	p, bad := urlpath.Parse(path)
	return policy.Request{
		Action: policy.HTTPRequest, Authority: a, Session: "s", Project: "/p", Agent: "claude",
		HTTP: policy.HTTP{Method: method, Path: p, BadPath: bad, Query: query, Header: header(fields)},
	}
}

func header(fields []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			if !yield(name, value) {
				return
			}
		}
	}
}

// requestRules is a person's policy with most of what rules about requests can
// say.
func requestRules() []policy.Rule {
	return []policy.Rule{
		{Effect: policy.Allow, Domain: "api.git.test", Preset: true},
		{Effect: policy.Allow, Domain: "*.git.test"},
		{Effect: policy.Allow, Domain: "api.git.test", Methods: []string{"GET", "HEAD"}, Paths: []string{"/repos/acme/**", "/user"}},
		{Effect: policy.Allow, Domain: "api.git.test", Methods: []string{"POST"}, Paths: []string{"/repos/acme/*/issues"}, Bytes: 1000},
		{Effect: policy.Ask, Domain: "api.git.test", Methods: []string{"DELETE"}},
		{Effect: policy.Deny, Domain: "api.git.test", Paths: []string{"/repos/acme/secret/**"}},
		{Effect: policy.Allow, Domain: "code.test", Query: map[string]string{"service": "git-upload-pack"}, Paths: []string{"/**/info/refs"}},
		{Effect: policy.Allow, Domain: "code.test", Headers: map[string]string{"Content-Type": "application/x-git-upload-pack-*"}},
		{Effect: policy.Allow, Domain: "plain.test"},
		{Effect: policy.Deny, Domain: "plain.test", Headers: map[string]string{"X-Danger": "*"}},
		{Effect: policy.Allow, Domain: "both.test"},
		{Effect: policy.Allow, Domain: "both.test", Methods: []string{"GET"}, Bytes: 5},
		{Effect: policy.Allow, Domain: "pinned.test", Tunnel: true},
		{Effect: policy.Allow, Domain: "torn.test", Tunnel: true},
		{Effect: policy.Deny, Domain: "torn.test", Paths: []string{"/x"}},
	}
}

func TestRequests(t *testing.T) {
	s := compile(t, policy.Input{Rules: requestRules()})
	printed := compile(t, policy.Input{Cedar: []policy.CedarFile{{Name: "printed", Text: []byte(s.Cedar())}}})
	for _, tt := range []struct {
		line   string
		fields []string
		want   policy.Effect
		by     string
		bytes  int64
		// yaml says that the printed text cannot say the same.
		yaml bool
	}{
		{line: "GET api.git.test/repos/acme/x", want: policy.Allow, by: "/repos/acme/**"},
		{line: "GET api.git.test/repos/evil/x", by: "unlisted"},
		{line: "GET api.git.test/repos/acme/../evil", by: "unlisted"},
		{line: "GET api.git.test/repos/acme/%2e%2e/evil", by: "unlisted"},
		{line: "GET api.git.test/repos//acme/./x", want: policy.Allow, by: "/repos/acme/**"},
		{line: "GET api.git.test/repos/acme/..%2fevil", by: "/repos/acme/secret/**"},
		{line: "GET api.git.test/repos/acme/secret", by: "/repos/acme/secret/**"},
		{line: "GET api.git.test/repos/acme/%73ecret/x", by: "/repos/acme/secret/**"},
		{line: "GET api.git.test/repos/acme%2fsecret", by: "/repos/acme/secret/**"},
		{line: "GET api.git.test/user", want: policy.Allow, by: "/user"},
		{line: "GET api.git.test/user/", want: policy.Allow, by: "/user"},
		{line: "GET api.git.test/users", by: "unlisted"},
		{line: "get api.git.test/user", by: "unlisted"},
		{line: "POST api.git.test/repos/acme/x/issues", want: policy.Allow, by: "bytes 1000", bytes: 1000},
		{line: "POST api.git.test/repos/acme/x/issues/1", by: "unlisted"},
		// What a server may take for the method or the path is judged as well.
		{line: "GET api.git.test/user", fields: []string{"X-HTTP-Method-Override: get"}, want: policy.Allow, by: "/user"},
		{line: "GET api.git.test/user", fields: []string{"X-HTTP-Method-Override: POST"}, by: "unlisted"},
		{line: "GET api.git.test/user", fields: []string{"x_http_method: Patch"}, by: "unlisted"},
		{line: "GET api.git.test/repos/acme/x", fields: []string{"X-Method-Override: delete"}, want: policy.Ask, by: "DELETE"},
		{line: "GET api.git.test/user?a=b&_method=put", by: "unlisted"},
		{line: "GET api.git.test/user?%5fMethod=%70ut", by: "unlisted"},
		{line: "GET api.git.test/user?_method=%47ET", want: policy.Allow, by: "/user"},
		{line: "GET api.git.test/user", fields: []string{"X-Original-URL: /repos/acme/secret/x"}, by: "/repos/acme/secret/**"},
		{line: "GET api.git.test/user", fields: []string{"X-Rewrite-Url: https://api.git.test/repos/evil?x"}, by: "unlisted"},
		{line: "GET api.git.test/user", fields: []string{"X-Original-URL: /repos/acme/y"}, want: policy.Allow, by: "/user"},
		{line: "GET api.git.test/user", fields: []string{"X-Original-URL: /a/..%2fb"}, by: "/repos/acme/secret/**"},
		{line: "GET api.git.test/repos/acme/x", fields: []string{"X-HTTP-Method: POST", "X-Rewrite-URL: /repos/acme/x/issues"}, by: "unlisted"},
		{line: "POST plain.test/x", fields: []string{"X-HTTP-Method-Override: DELETE", "X-Original-URL: /y"}, want: policy.Allow, by: "allow plain.test"},
		{line: "DELETE api.git.test/repos/acme/x", want: policy.Ask, by: "DELETE"},
		{line: "POST other.git.test/", want: policy.Allow, by: "allow *.git.test"},
		{line: "GET api.git.test:22/user", by: "unlisted"},
		{line: "GET code.test/a/b.git/info/refs?service=git-upload-pack", want: policy.Allow, by: "query service"},
		{line: "GET code.test/a/b.git/info/refs?service=git-receive-pack", by: "unlisted"},
		{line: "GET code.test/a/b.git/info/refs?service=git-upload-pack&service=git-receive-pack", by: "unlisted"},
		{line: "GET code.test/a/b.git/info/refs?service=%zz&service=git-upload-pack", by: "unlisted", yaml: true},
		{line: "POST code.test/x", fields: []string{"content-type: application/x-git-upload-pack-request"}, want: policy.Allow, by: "header content-type"},
		{line: "POST code.test/x", fields: []string{"content-type: application/x-git-receive-pack-request"}, by: "unlisted"},
		{line: "POST code.test/x", fields: []string{"Content-Type: application/x-git-upload-pack-request", "Content-Type: text/plain"}, by: "unlisted", yaml: true},
		{line: "POST code.test/x", by: "unlisted"},
		{line: "POST code.test/x", fields: []string{"Content-Type: application/x-git-upload-pack-request", "content_type: text/plain"}, by: "unlisted", yaml: true},
		{line: "POST plain.test/x", fields: []string{"x_danger: 1"}, by: "x-danger"},
		{line: "POST plain.test/x", want: policy.Allow, by: "allow plain.test"},
		{line: "POST plain.test/x", fields: []string{"x-danger: 1"}, by: "x-danger"},
		{line: "POST both.test/x", want: policy.Allow, by: "allow both.test"},
		{line: "GET both.test/x", want: policy.Allow, by: "allow both.test"},
		{line: "GET pinned.test/x", want: policy.Allow, by: "tunnel"},
		{line: "GET torn.test/y", by: "tunnel", yaml: true},
		{line: "GET nowhere.test/y", by: "unlisted"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			r := ask(t, tt.line, tt.fields...)
			v := policy.Decide(s, r)
			if v.Effect != tt.want || !strings.Contains(v.Rule, tt.by) || v.MaxBytes != tt.bytes {
				t.Errorf("%s by %q, at most %d: %s", v.Effect, v.Rule, v.MaxBytes, v.Reason)
			}
			if v.Effect != policy.Allow && (v.Reason == "" || len(v.Hints) == 0) {
				t.Errorf("refused without words: %+v", v)
			}
			if got := policy.Decide(printed, r); !tt.yaml && got.Effect != tt.want && tt.want != policy.Ask {
				t.Errorf("as Cedar %s by %q: %s\n%s", got.Effect, got.Rule, got.Reason, s.Cedar())
			}
			x := policy.Explain(s, r)
			if x.Enforced.Rule != "unlisted" && !strings.Contains(x.Enforced.Reason, "another request") && !strings.Contains(x.String(), "> ") {
				t.Errorf("nothing decides in\n%s", x)
			}
		})
	}
}

// A refusal names the rule that is most like the request, and what differs.
func TestNearest(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "api.wide.test", Methods: []string{"GET", "HEAD"}, Paths: []string{"/repos/acme/**"}},
		{Effect: policy.Allow, Domain: "api.wide.test", Methods: []string{"POST"}, Paths: []string{"/hook"}, Headers: map[string]string{"X-Team": "blue"}},
		{Effect: policy.Allow, Domain: "api.wide.test", Paths: []string{"/q"}, Query: map[string]string{"token": "a*"}},
		{Effect: policy.Allow, Domain: "*.wide.test", Methods: []string{"PUT"}},
	}})
	for _, tt := range []struct{ line, field, rule, differs, hint string }{
		{line: "DELETE api.wide.test/repos/acme/x", rule: "GET,HEAD", differs: ": another method", hint: `methods: [DELETE], paths: ["/repos/acme/x"]`},
		{line: "GET api.wide.test/repos/evil", rule: "GET,HEAD", differs: ": another path", hint: `methods: [GET], paths: ["/repos/evil"]`},
		{line: "POST api.wide.test/hook", rule: "POST /hook", differs: ": another header x-team"},
		{line: "POST api.wide.test/hook", field: "X-Team: red", rule: "POST /hook", differs: ": another header x-team"},
		{line: "GET api.wide.test/q?token=b", rule: "query token", differs: ": another query token"},
		{line: "GET api.wide.test/q?token=%zz", rule: "query token", differs: ": a query that servers read in two ways"},
		{line: "POST other.wide.test/x", rule: "*.wide.test PUT", differs: ": another method"},
		{line: "GET api.wide.test/repos/acme/a;b", rule: "GET,HEAD", differs: ": a semicolon in the path, at which some servers cut a segment off", hint: "{domain: api.wide.test, methods: [GET]}"},
		{line: "get api.wide.test/repos/acme/x", rule: "GET,HEAD", differs: ": another method", hint: `{domain: api.wide.test, paths: ["/repos/acme/x"]}`},
		{line: "GET api.wide.test/%ff", hint: `for every path, since no rule can name this one, in config.yaml: proxy: {allow: [{domain: api.wide.test, methods: [GET], paths: ["/**"]`},
	} {
		var fields []string
		if tt.field != "" {
			fields = append(fields, tt.field)
		}
		v := policy.Decide(s, ask(t, tt.line, fields...))
		if v.Effect != policy.Deny || !strings.Contains(v.Reason, tt.rule) || !strings.HasSuffix(v.Reason, tt.differs) || !strings.Contains(v.Hints[0], tt.hint) {
			t.Errorf("%s %s: %s, %q", tt.line, tt.field, v.Reason, v.Hints)
		}
		if strings.Contains(v.Reason, "red") {
			t.Errorf("%s: the reason tells a value: %s", tt.line, v.Reason)
		}
	}
}

// Honest requests have one override or none: a heap of them hides something, and
// would cost a judgement for each.
func TestManyReadings(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "plain.test"}}})
	var fields []string
	for i := range 20 {
		fields = append(fields, "X-HTTP-Method-Override: M"+strings.Repeat("X", i))
	}
	if v := policy.Decide(s, ask(t, "GET plain.test/", fields...)); v.Effect != policy.Deny || !strings.Contains(v.Reason, "too many times") {
		t.Errorf("%s: %s", v.Effect, v.Reason)
	}
	if v := policy.Decide(s, ask(t, "GET plain.test/", fields[:3]...)); v.Effect != policy.Allow {
		t.Errorf("%s: %s", v.Effect, v.Reason)
	}
}

// 64 KiB of fields, each a second method or path, must not become all their pairs.
func TestManyPairsOfReadings(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "plain.test"}}})
	var fields []string
	for i := range 1600 {
		fields = append(fields, "X-HTTP-Method: M"+strconv.Itoa(i), "X-Rewrite-Url: /")
	}
	r := ask(t, "GET plain.test/", fields...)
	if n := testing.AllocsPerRun(1, func() { policy.Decide(s, r) }); n > 10_000 {
		t.Errorf("%v allocations", n)
	}
	if v := policy.Decide(s, r); v.Effect != policy.Deny || !strings.Contains(v.Reason, "too many times") {
		t.Errorf("%s: %s", v.Effect, v.Reason)
	}
}

// The words of a refusal are made once, of few rules, and read no query that no
// rule speaks of: a program may ask for refusals as often as it likes.
func TestManyRulesAndKeysRefused(t *testing.T) {
	var paths, fields, keys []policy.Rule
	for i := range 300 {
		at := []string{"/a" + strconv.Itoa(i)}
		paths = append(paths, policy.Rule{Effect: policy.Allow, Domain: "plain.test", Paths: at})
		fields = append(fields, policy.Rule{Effect: policy.Allow, Domain: "plain.test", Paths: at, Headers: map[string]string{"X-A" + strconv.Itoa(i): "*"}})
		keys = append(keys, policy.Rule{Effect: policy.Allow, Domain: "plain.test", Paths: at, Query: map[string]string{"k" + strconv.Itoa(i): "*"}})
	}
	var overrides []string
	for i := range 7 {
		overrides = append(overrides, "X-HTTP-Method: M"+strconv.Itoa(i))
	}
	query := strings.TrimSuffix(strings.Repeat("ab=c&", 9_900), "&")
	for name, tt := range map[string]struct {
		rules []policy.Rule
		most  float64 // allocations: one for each value of a query that is read, a few for each rule
	}{"paths": {paths, 2_000}, "headers": {fields, 4_000}, "queries": {keys, 4_000}} {
		s := compile(t, policy.Input{Rules: tt.rules, Unlisted: policy.Ask})
		r := ask(t, "GET plain.test/x?"+query, overrides...)
		if n := testing.AllocsPerRun(1, func() { policy.Decide(s, r) }); n > tt.most {
			t.Errorf("%s: %v allocations", name, n)
		}
		v := policy.Decide(s, r)
		if v.Effect != policy.Ask || !strings.Contains(v.Reason, "another path") || len(v.Hints) == 0 {
			t.Errorf("%s: %s: %s", name, v.Effect, v.Reason)
		}
	}
}

// Some servers read a method in small letters as the one in capitals.
func TestMethodInSmallLetters(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "plain.test"}, {Effect: policy.Deny, Domain: "plain.test", Methods: []string{"DELETE"}},
	}})
	for line, want := range map[string]policy.Effect{
		"DELETE plain.test/": policy.Deny, "delete plain.test/": policy.Deny, "DeLete plain.test/": policy.Deny,
		"get plain.test/": policy.Allow, "GET plain.test/": policy.Allow,
	} {
		r := ask(t, line)
		for _, r.HTTP.Header = range []iter.Seq2[string, string]{r.HTTP.Header, nil} {
			if v := policy.Decide(s, r); v.Effect != want {
				t.Errorf("%s, fields %t: %s: %s", line, r.HTTP.Header != nil, v.Effect, v.Reason)
			}
		}
	}
}

// A connection is let through when a request on it may be, and then read.
func TestConnectionsForRequests(t *testing.T) {
	s := compile(t, policy.Input{Rules: requestRules(), Cedar: []policy.CedarFile{{Name: "c", Text: []byte(`
		permit (principal, action == Action::"HttpRequest", resource == Host::"cedar.test") when { context.method == "GET" };
	`)}}})
	for _, tt := range []struct {
		host    string
		want    policy.Effect
		inspect bool
	}{
		{"api.git.test", policy.Allow, true},
		{"other.git.test", policy.Allow, false},
		{"code.test", policy.Allow, true},
		{"plain.test", policy.Allow, true},
		{"both.test", policy.Allow, false},
		{"pinned.test", policy.Allow, false},
		{"torn.test", policy.Deny, false},
		{"cedar.test", policy.Allow, true},
		{"api.git.test:22", policy.Deny, true},
		{"nowhere.test", policy.Deny, false},
	} {
		a, err := authority.ParseHostPort(tt.host, 443)
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range []policy.Action{policy.NetworkConnect, policy.NetworkResolve} {
			if action == policy.NetworkResolve && strings.Contains(tt.host, ":") {
				continue
			}
			v := policy.Decide(s, policy.Request{Action: action, Authority: a})
			if v.Effect != tt.want || action == policy.NetworkConnect && v.Inspect != tt.inspect {
				t.Errorf("%s %s: %s, inspect %t, by %q: %s", action, tt.host, v.Effect, v.Inspect, v.Rule, v.Reason)
			}
		}
	}
}

// A person's flag for the session lets every request through, but for a deny.
func TestRequestsWithFlag(t *testing.T) {
	s := compile(t, policy.Input{Rules: requestRules()})
	s, err := s.With([]policy.Rule{{Effect: policy.Allow, Domain: "api.git.test"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]policy.Effect{
		"PUT api.git.test/any":               policy.Allow,
		"DELETE api.git.test/any":            policy.Allow,
		"GET api.git.test/repos/acme/secret": policy.Deny,
	} {
		if v := policy.Decide(s, ask(t, line)); v.Effect != want {
			t.Errorf("%s: %s by %s", line, v.Effect, v.Rule)
		}
	}
}

func TestRequestsInCedar(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{{Effect: policy.Allow, Domain: "wide.test"}}, Cedar: []policy.CedarFile{{Name: "c", Text: []byte(`
		permit (principal in Agent::"claude", action == Action::"HttpRequest", resource == Host::"api.test")
		when { context.method == "GET" && context.segments.hasTag("0") && context.segments.getTag("0") == "repos" && context.segments.hasTag("-1") && context.segments.getTag("-1") == "issues" };
		@ask permit (principal, action == Action::"HttpRequest", resource == Host::"api.test") when { context.method == "POST" && context.agent == "claude" };
		forbid (principal, action == Action::"HttpRequest", resource) when { context.headers.hasTag("x-danger") || context.query.hasTag("evil") };
		forbid (principal, action == Action::"HttpRequest", resource == Host::"wide.test") unless { context.path like "/ok/*" && context.depth < 4 };
		forbid (principal, action == Action::"HttpRequest", resource == Host::"broken.test") when { context.depth * 9223372036854775807 < 0 };
	`)}}})
	for _, tt := range []struct {
		line   string
		fields []string
		want   policy.Effect
	}{
		{line: "GET api.test/repos/a/issues", want: policy.Allow},
		{line: "GET api.test/repos/a"},
		{line: "GET api.test/"},
		{line: "POST api.test/x", want: policy.Ask},
		{line: "GET api.test/repos/a/issues", fields: []string{"X-Danger: no"}},
		{line: "GET api.test/repos/issues?evil=1"},
		{line: "GET api.test/repos/%00/issues"},
		{line: "PUT wide.test/ok/1", want: policy.Allow},
		{line: "PUT wide.test/ok/1/2/3"},
		{line: "PUT wide.test/bad"},
		{line: "GET broken.test/x/y/z"},
	} {
		v := policy.Decide(s, ask(t, tt.line, tt.fields...))
		if v.Effect != tt.want {
			t.Errorf("%s %v: %s by %q: %s (%s)", tt.line, tt.fields, v.Effect, v.Rule, v.Reason, v.Diagnostic)
		}
	}
}

func TestBadRequestRules(t *testing.T) {
	for _, tt := range []struct {
		rule policy.Rule
		msg  string
	}{
		{policy.Rule{Effect: policy.Allow, Methods: []string{"get"}}, "methods are written as they are sent"},
		{policy.Rule{Effect: policy.Allow, Methods: []string{}}, "the list of methods is empty"},
		{policy.Rule{Effect: policy.Allow, Paths: []string{}}, "the list of paths is empty"},
		{policy.Rule{Effect: policy.Allow, Paths: []string{"repos"}}, "begins with a slash"},
		{policy.Rule{Effect: policy.Allow, Paths: []string{"/a/../b"}}, "dot segments"},
		{policy.Rule{Effect: policy.Allow, Headers: map[string]string{"Host": "x"}}, "the gate's own"},
		{policy.Rule{Effect: policy.Allow, Headers: map[string]string{"a b": "x"}}, "no name of a header"},
		{policy.Rule{Effect: policy.Deny, Bytes: 5}, "allow rule"},
		{policy.Rule{Effect: policy.Allow, Bytes: -5}, "less than nothing"},
		{policy.Rule{Effect: policy.Allow, Tunnel: true, Methods: []string{"GET"}}, "a tunnel is never opened"},
		{policy.Rule{Effect: policy.Deny, Tunnel: true}, "allow rule"},
	} {
		tt.rule.Domain, tt.rule.Origin = "a.test", source.Position{File: "config.yaml", Line: 7}
		_, err := policy.Compile(policy.Input{Rules: []policy.Rule{tt.rule}})
		if err == nil || !strings.Contains(explained(err), tt.msg) || !strings.HasPrefix(err.Error(), "config.yaml:7") {
			t.Errorf("%+v: %v", tt.rule, err)
		}
	}
}
