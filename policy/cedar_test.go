package policy_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/policy"
)

const connectAction = `action == Action::"NetworkConnect"`

func cedarInput(text string) policy.Input {
	return policy.Input{Cedar: []policy.CedarFile{{Name: "my.cedar", Text: []byte(text)}}}
}

func TestErroringPolicyDenies(t *testing.T) { // PO-01
	permit := "permit (principal, " + connectAction + ", resource);\n"
	overflow := "when { context.port + 9223372036854775807 > 0 };"
	tests := []struct{ name, text string }{
		{"forbid", permit + "forbid (principal, " + connectAction + ", resource) " + overflow},
		{"permit", permit + "permit (principal, " + connectAction + ", resource) " + overflow},
		{"ask", permit + "@ask permit (principal, " + connectAction + ", resource) " + overflow},
		{"unless", permit + "forbid (principal, " + connectAction + ", resource) unless { 9223372036854775807 + context.port == 1 };"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, cedarInput(tt.text))
			v := decide(t, s, "a.test")
			if v.Effect != policy.Deny || v.Origin.Line != 2 || v.Rule != "my.cedar#2" || len(v.Hints) == 0 {
				t.Fatalf("got %+v", v)
			}
			if !strings.Contains(v.Diagnostic, "overflow") || !strings.Contains(v.Diagnostic, "my.cedar:2:1") {
				t.Fatalf("diagnostic %q", v.Diagnostic)
			}
			// A person's word does not override what nobody could evaluate.
			with, err := s.With([]policy.Rule{{Effect: policy.Allow, Domain: "a.test"}}, nil)
			if err != nil || decide(t, with, "a.test").Effect != policy.Deny {
				t.Fatalf("--allow overrode a broken policy: %v", err)
			}
		})
	}
	// The control: without the broken policy the permit is obeyed, and cedar-go
	// alone would have obeyed it with.
	if v := decide(t, compile(t, cedarInput(permit)), "a.test"); v.Effect != policy.Allow {
		t.Fatalf("control: %+v", v)
	}
	set, err := cedar.NewPolicySetFromBytes("x", []byte(tests[0].text))
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := cedar.Authorize(set, types.EntityMap{}, cedar.Request{
		Action:  types.NewEntityUID("Action", "NetworkConnect"),
		Context: types.NewRecord(types.RecordMap{"port": types.Long(443)}),
	}); d != cedar.Allow {
		t.Fatal("control: cedar-go no longer skips an erroring forbid; say so in the package comment")
	}
}

func TestCedarRefuses(t *testing.T) { // PO-02
	ok := "permit (principal, " + connectAction + ", resource);\n"
	tests := []struct {
		name, text   string
		line, column int
		msg, hint    string
	}{
		{"action", "permit (\n  principal,\n  action == Action::\"NetworkConect\",\n  resource\n);", 3, 21, "unknown action", `"NetworkConnect"`},
		{"action in set", ok + `permit (principal, action in [Action::"NetworkConnect", Action::"FileOpn"], resource);`, 2, 65, "unknown action", `"FileOpen"`},
		{"action of another kind", `permit (principal, action == Act::"NetworkConnect", resource);`, 1, 30, "not an action", "Action::"},
		{"action far off", `permit (principal, action == Action::"zzzzzzzzzzzz", resource);`, 1, 38, "unknown action", "known are"},
		{"type", ok + `permit (principal, ` + connectAction + `, resource == Hst::"a.test");`, 2, 68, "unknown type", `"Host"`},
		{"type in condition", ok + `forbid (principal, ` + connectAction + `, resource) when { resource in [Hots::"a.test"] };`, 2, 86, "unknown type", `"Host"`},
		{"principal type", `permit (principal == Team::"alice", ` + connectAction + `, resource);`, 1, 22, "unknown type", ""},
		{"user in a condition", `forbid (principal, ` + connectAction + `, resource) unless { principal == User::"alice" };`, 1, 88, "unknown type", "in the head alone"},
		{"attribute", ok + "// ü\nforbid (principal, " + connectAction + ", resource)\nwhen { context.hostnme == \"a.test\" };", 4, 16, "unknown attribute context.hostnme", `"hostname"`},
		{"attribute by index", `forbid (principal, ` + connectAction + `, resource) when { context["prot"] == 22 };`, 1, 1, "unknown attribute context.prot", `"port"`},
		{"attribute after has", `forbid (principal, ` + connectAction + `, resource) when { context has ipp };`, 1, 85, "unknown attribute context.ipp", `"ip"`},
		{"attribute of another action", `forbid (principal, ` + connectAction + `, resource) when { context.header == "x" };`, 1, 81, "unknown attribute", ""},
		{"annotation", "@aks\npermit (principal, " + connectAction + ", resource);", 1, 2, "unknown annotation", "@ask"},
		{"annotation in upper case", "@Ask\npermit (principal, " + connectAction + ", resource);", 1, 2, "unknown annotation", "@ask"},
		{"ask on forbid", "@ask forbid (principal, " + connectAction + ", resource);", 1, 2, "@ask stands on a forbid", "@ask permit"},
		{"odd host", `forbid (principal, ` + connectAction + `, resource == Host::"127.1");`, 1, 74, "IPv4", ""},
		{"host with two stars", `forbid (principal, ` + connectAction + `, resource == Host::"*.*.test");`, 1, 74, "star", ""},
		{"host with bad port", `forbid (principal, ` + connectAction + `, resource == Host::"a.test:0");`, 1, 74, "1 to 65535", ""},
		{"host range", `forbid (principal, ` + connectAction + `, resource == Host::"10.0.0.0/8");`, 1, 74, "isInRange", ""},
		{"empty host", `forbid (principal, ` + connectAction + `, resource == Host::"");`, 1, 74, "empty", ""},
		{"IpRange", `forbid (principal, ` + connectAction + `, resource == Net::IpRange::"10.0.0.0/8");`, 1, 73, "IpRange", "isInRange"},
		{"hostname never so spelled", `forbid (principal, ` + connectAction + `, resource) when { context.hostname == "GitHub.com" };`, 1, 93, "never spelled", "github.com"},
		{"hostname in a set", `forbid (principal, ` + connectAction + `, resource) when { ["a.test", "B.test"].contains(context.hostname) };`, 1, 84, "never spelled", "b.test"},
		{"hostname never", `forbid (principal, ` + connectAction + `, resource) when { "a b" == context.hostname };`, 1, 73, "never be this", ""},
		{"hostname like", `forbid (principal, ` + connectAction + `, resource) when { context.hostname like "*.GitHub.com" };`, 1, 95, "never spelled", "*.github.com"},
		{"resource compared otherwise", `forbid (principal, ` + connectAction + `, resource) when { [Host::"a.test"].contains(resource) };`, 1, 99, "cannot be judged", ""},
		{"resource equals a set", `forbid (principal, ` + connectAction + `, resource) when { resource == [Host::"a.test"] };`, 1, 73, "cannot be judged", ""},
		{"resource in nothing", `forbid (principal, ` + connectAction + `, resource) when { resource in [] };`, 1, 85, "empty set", ""},
		{"type mismatch", ok + `forbid (principal, ` + connectAction + `, resource) when { context.port == "443" };`, 2, 1, "Long and String", ""},
		{"optional attribute unguarded", ok + `forbid (principal, ` + connectAction + `, resource) when { context.ip.isLoopback() };`, 2, 1, "optional attribute", ""},
		{"resource that the action never has", `forbid (principal, ` + connectAction + `, resource == MCP::Server::"a.test");`, 1, 1, "applicable action", ""},
		{"syntax: keyword", "permit (principal, acton, resource);", 1, 20, `expected "action", found "acton"`, `"action"`},
		{"syntax: effect", ok + "\npermt (principal, action, resource);", 3, 1, "permit or forbid", `"permit"`},
		{"syntax: end", "permit (principal, action, resource)", 1, 37, "end of the file", ""},
		{"syntax: string", "permit (principal, action, resource == Host::\"a", 1, 0, "", ""},
		{"syntax: a single =", "permit (principal, action, resource) when { context.hostname = \"a\" };", 1, 62, `found "="`, "did you mean ==?"},
		{"syntax: and", "permit (principal, action, resource) when { context.port == 443 and true };", 1, 65, `found "and"`, "did you mean &&?"},
		{"syntax: ||", "permit (principal, action, resource) when { true | false };", 1, 50, `found "|"`, "did you mean ||?"},
		{"syntax: True", "permit (principal, action, resource) when { True };", 1, 45, `found "True"`, "did you mean true?"},
		{"syntax: action without its type", "permit (principal, action == NetworkConnect, resource);", 1, 44, `expected "::"`, `write Action::"NetworkConnect"`},
		{"syntax: action without quotes", "permit (principal, action == Action::NetworkConnect, resource);", 1, 52, `expected "::"`, `write Action::"NetworkConnect"`},
		{"syntax: host as a text", "permit (principal, action, resource == \"a.test\");", 1, 40, `found "\"a.test\""`, `write Host::"a.test"`},
		{"syntax: agent as a text", "permit (principal == \"claude\", action, resource);", 1, 22, "expected a name", `write Agent::"claude"`},
		{"syntax: single colon", "permit (principal, action, resource == Host:\"a.test\");", 1, 44, `found ":"`, "did you mean ::?"},
		{"syntax: single quotes", "permit (principal, action, resource == Host::'a.test');", 1, 46, `found "'"`, "double quotes"},
		{"syntax: text without end", "permit (principal, action, resource == Host::\"a.test);", 1, 46, "has no end", `close it`},
		{"syntax: escape", `permit (principal, action, resource) when { "\q" == "a" };`, 1, 45, "escape", `\\`},
		{"syntax: no braces", "permit (principal, action, resource) when context.port == 443;", 1, 43, `expected "{"`, "when { ... }"},
		{"syntax: open brace", "permit (principal, action, resource) when { context.port == 443;", 1, 64, `expected "}", found ";"`, "not closed"},
		{"syntax: empty condition", "permit (principal, action, resource) when { };", 1, 45, `found "}"`, "the condition is empty"},
		{"syntax: half a comparison", "permit (principal, action, resource) when { context.port == };", 1, 61, `expected a value, found "}"`, ""},
		{"syntax: if", "permit (principal, action, resource) if { true };", 1, 38, `found "if"`, "when or unless"},
		{"syntax: whne", "permit (principal, action, resource) whne { true };", 1, 38, `found "whne"`, `"when"`},
		{"syntax: allow", "allow (principal, action, resource);", 1, 1, `found "allow"`, `"permit"`},
		{"syntax: deny", "deny (principal, action, resource);", 1, 1, `found "deny"`, `"forbid"`},
		{"syntax: comment of a shell", "# all\npermit (principal, action, resource);", 1, 1, `found "#"`, "//"},
		{"syntax: JSON", `{"staticPolicies": {}}`, 1, 1, `found "{"`, "JSON"},
		{"syntax: template", "permit (principal == ?principal, action, resource);", 1, 22, "expected a name", "templates"},
		{"syntax: function", "permit (principal, action, resource) when { ipp(\"10.0.0.1\") == context.ip };", 1, 45, "no function ipp", `"ip"`},
		{"syntax: method", "permit (principal, action, resource) when { context.ip.isInRnge(ip(\"10.0.0.0/8\")) };", 1, 56, "no method isInRnge", `"isInRange"`},
		{"syntax: method as a function", "permit (principal, action, resource) when { isInRange(context.ip) };", 1, 45, "is a method", "X.isInRange"},
		{"syntax: like without quotes", "permit (principal, action, resource) when { context.hostname like a* };", 1, 67, "double quotes", "such as like"},
		{"syntax: set without comma", "permit (principal, action in [Action::\"NetworkConnect\" Action::\"HttpRequest\"], resource);", 1, 56, `expected ",", found "Action"`, ""},
		{"syntax: number", "permit (principal, action, resource) when { context.port == 99999999999999999999 };", 1, 61, "too large", "9223372036854775807"},
		{"syntax: fraction", "permit (principal, action, resource) when { 1.5 == 2 };", 1, 47, "expected a name", "numbers are whole"},
		{"syntax: annotation", "@id(foo) permit (principal, action, resource);", 1, 5, `double quotes, found "foo"`, ""},
		{"syntax: annotation twice", "@id(\"a\") @id(\"b\") permit (principal, action, resource);", 1, 11, "annotation id stands twice", ""},
		{"type: no action named", "permit (principal, action, resource) when { context.hostname == \"a.test\" };", 1, 53, "context.hostname is not there for Action", "in the scope"},
		{"type: address", "permit (principal, action, resource) when { ip(\"x\") == ip(\"10.0.0.1\") };", 1, 48, `"x" is no IP address`, "ip("},
		{"type: texts added", "permit (principal, action, resource) when { \"a\" + \"b\" == 1 };", 1, 1, "a String stands where a Long belongs", "numbers"},
		{"type: contains of a text", "permit (principal, " + connectAction + ", resource) when { context.hostname.contains(\"a\") };", 1, 1, "a String stands where a Set belongs", "like"},
		{"NUL", "permit (principal, action, resource\x00);", 1, 0, "", ""},
		{"empty", "", 1, 1, "has no policy", ""},
		{"blank", " \n\t\n", 1, 1, "has no policy", ""},
		{"comment only", "// permit (principal, action, resource);", 1, 1, "has no policy", ""},
		{"BOM", "\ufeff" + ok, 1, 1, "byte order mark", "UTF-8"},
		{"UTF-16", "\xff\xfep\x00", 1, 1, "not UTF-8", ""},
		{"Latin-1", "// \xe9\n" + ok, 1, 1, "not UTF-8", ""},
		{"50 MiB", strings.Repeat(ok, 50<<20/len(ok)+1), 0, 0, "bytes", "1048576"},
		{"brackets", "permit (principal, action, resource) when { " + strings.Repeat("(", 500000), 1, 0, "too deep", ""},
		{"ifs", "permit (principal, action, resource) when { " + strings.Repeat("if true then ", 60000), 1, 0, "too deep", ""},
		{"nots", "permit (principal, action, resource) when { " + strings.Repeat("!", 900000), 1, 0, "too deep", ""},
		{"chain", "permit (principal, action, resource) when { true" + strings.Repeat("&&true", 100000) + "};", 1, 0, "too long", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := policy.Compile(cedarInput(tt.text))
			var se *source.Problem
			if s != nil || !errors.As(err, &se) {
				t.Fatalf("got %v, %v", s, err)
			}
			if se.File != "my.cedar" || se.Line != tt.line || tt.column != 0 && se.Column != tt.column {
				t.Errorf("place %s:%d:%d, want line %d column %d: %v", se.File, se.Line, se.Column, tt.line, tt.column, se)
			}
			if !strings.Contains(se.Msg, tt.msg) || !strings.Contains(se.Hint, tt.hint) {
				t.Errorf("got %q (%q), want %q (%q)", se.Msg, se.Hint, tt.msg, tt.hint)
			}
			if strings.Contains(err.Error(), "<input>") || len(err.Error()) > 1000 {
				t.Errorf("message %q", err)
			}
		})
	}
	_, err := policy.Compile(policy.Input{Cedar: []policy.CedarFile{{Name: "a", Text: []byte(ok)}, {Name: "a", Text: []byte(ok)}}})
	if err == nil {
		t.Error("two files of one name were accepted")
	}
	_, err = policy.Compile(policy.Input{
		Rules: []policy.Rule{{Effect: policy.Allow, Domain: "*"}},
		Cedar: []policy.CedarFile{{Name: "a", Text: []byte("x")}, {Name: "b", Text: []byte("y")}},
	})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not every problem is reported: %v", err)
	}
}

// What is answered, counted or accepted of one statement is never taken for another's.
func TestNamesAreGivenOnce(t *testing.T) {
	one := `forbid (principal, ` + connectAction + `, resource == Host::"a.test");` + "\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string // empty where it loads
	}{
		{"in one file", map[string]string{"a": `@id("x") ` + one + `@id("y") ` + one + `@ask @id("x") permit (principal, action, resource);`},
			`a:3:7: the name "x" is that of another statement already, at a:1:2`},
		{"in two files", map[string]string{"/a/p.cedar": `@id("x") ` + one, "/b/p.cedar": `@id("x") ` + one},
			`/b/p.cedar:1:2: the name "x" is that of another statement already, at /a/p.cedar:1:2`},
		{"spelled otherwise", map[string]string{"a": `@id("x") ` + one + `@id("\u{78}") ` + one}, `a:2:2: the name "x"`},
		{"the place of another", map[string]string{"a": `@id("a#2") ` + one + one}, `a:1:2: the name "a#2" is that of another statement already, at a:2:1`},
		{"the place of one in another file", map[string]string{"a": one, "b": `@id("a#1") ` + one}, `b:1:2: the name "a#1"`},
		{"the word of another", map[string]string{"/d/a": `@id("a#2") ` + one + one}, `/d/a:1:2: the name "a#2"`},
		{"its own place", map[string]string{"a": `@id("a#1") ` + one}, ""},
		{"a name with another spelling", map[string]string{"a": `@id("x") ` + one + `@id("X") ` + one}, ""},
		{"no name", map[string]string{"a": `@id("") ` + one + `@id("") ` + one + one}, ""},
		{"places in two files", map[string]string{"/a/p.cedar": one, "/b/p.cedar": one}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var in policy.Input
			for _, name := range slices.Sorted(maps.Keys(tt.files)) {
				in.Cedar = append(in.Cedar, policy.CedarFile{Name: name, Text: []byte(tt.files[name])})
			}
			s, err := policy.Compile(in)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var p *source.Problem
			if s != nil || !errors.As(err, &p) || !strings.HasPrefix(p.Error(), tt.want) || !strings.Contains(p.Hint, "an @id of its own") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLeashFileLoadsUnchanged(t *testing.T) {
	text, err := os.ReadFile("testdata/leash.cedar")
	if err != nil {
		t.Fatal(err)
	}
	s := compile(t, cedarInput(string(text)))
	tests := []struct {
		dest string
		want policy.Effect
	}{
		{"api.internal.test", policy.Allow},
		{"api.internal.test:80", policy.Allow},
		{"api.internal.test:22", policy.Deny}, // no port said: 443 and 80
		{"db.internal.test:5432", policy.Allow},
		{"db.internal.test", policy.Deny},
		{"a.b.corp.example", policy.Allow},
		{"corp.example", policy.Deny},
		{"192.0.2.7", policy.Allow},
		{"192.0.2.8", policy.Deny},
		{"192.0.2.8:8443", policy.Allow},
		{"eq.example.com", policy.Allow},
		{"eq.example.com:80", policy.Deny}, // forbid
		{"x.like.example", policy.Allow},
		{"x.like.example:5432", policy.Deny},
		{"one.example", policy.Allow},
		{"alias.example", policy.Allow},
		{"x.zone.example", policy.Allow},
		{"zone.example", policy.Deny},
		{"www.facebook.com:22", policy.Deny},
		{"mcp.untrusted.com:8080", policy.Deny},
		{"mcp.example.com", policy.Deny},
		{"nobody.test", policy.Deny},
	}
	for _, tt := range tests {
		if v := decide(t, s, tt.dest); v.Effect != tt.want || v.Diagnostic != "" {
			t.Errorf("%s: %+v, want %s", tt.dest, v, tt.want)
		}
	}
	// The same file over a policy that allows all hosts it forbids: the
	// forbids are what denies, not the default.
	over := cedarInput(string(text))
	for _, d := range []string{"www.facebook.com", "eq.example.com", "mcp.untrusted.com", "mcp.example.com"} {
		over.Rules = append(over.Rules, policy.Rule{Effect: policy.Allow, Domain: d})
	}
	o := compile(t, over)
	for dest, want := range map[string]policy.Effect{
		"www.facebook.com": policy.Deny, "eq.example.com:80": policy.Deny, "mcp.untrusted.com": policy.Deny,
		"mcp.example.com": policy.Allow, // one tool is forbidden, not the server
	} {
		if v := decide(t, o, dest); v.Effect != want {
			t.Errorf("%s: %+v, want %s", dest, v, want)
		}
	}
	// What keeps each statement is said, with its place.
	var got []string
	for _, st := range s.Statements() {
		got = append(got, fmt.Sprintf("%d %s %s %s", st.Origin.Line, st.Effect, st.Actions[0], st.Hold))
	}
	want := []string{
		"2 allow FileOpen list", "5 deny FileOpenReadWrite view", "8 allow ProcessExec list",
		"11 allow NetworkConnect enforced", "14 allow NetworkConnect enforced", "16 allow NetworkConnect enforced",
		"19 allow NetworkConnect enforced", "22 deny NetworkConnect enforced", "25 deny McpCall enforced",
		"28 deny McpCall residue", "31 allow HttpRewrite enforced",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c := s.Statements()[1].Closed; len(c) != 1 || c[0] != (policy.ClosedPath{Path: "/workspace/secrets", Dir: true, Write: true}) {
		t.Errorf("what the view must close: %+v", c)
	}
}

func TestCedarSemantics(t *testing.T) {
	tests := []struct {
		name, text string
		allow      []string
		ask        []string
		deny       []string
	}{
		{
			"everything, on the usual ports", `permit (principal, action, resource);`,
			[]string{"a.test", "192.0.2.1:80"}, nil, []string{"a.test:22"},
		},
		{
			"everything, any port", `permit (principal, ` + connectAction + `, resource) when { context.port > 0 };`,
			[]string{"a.test", "a.test:22", "192.0.2.1:5432"}, nil, nil,
		},
		{
			"ask", `@ask permit (principal, ` + connectAction + `, resource); permit (principal, ` + connectAction + `, resource == Host::"a.test");`,
			nil, []string{"a.test", "b.test"}, []string{"b.test:22"},
		},
		{
			"ports do not leak from one host to another",
			`permit (principal, ` + connectAction + `, resource) when { resource in [Host::"a.test", Host::"b.test:22"] || context.hostname == "c.test" || context.hostname == "d.b.test" };
			permit (principal, ` + connectAction + `, resource) when { resource in [Host::"e.test:22"] || context.hostname == "e.test" };`,
			[]string{"a.test", "b.test:22", "c.test", "d.b.test", "e.test", "e.test:22"}, nil,
			[]string{"a.test:22", "c.test:22", "b.test", "b.test:25", "d.b.test:22", "e.test:25"},
		},
		{
			"unless at a named port",
			`permit (principal, ` + connectAction + `, resource) when { resource in [Host::"*.x.test:22"] } unless { resource in [Host::"evil.x.test"] };`,
			[]string{"good.x.test:22"}, nil, []string{"evil.x.test:22", "good.x.test"},
		},
		{
			"not equal", `permit (principal, ` + connectAction + `, resource) when { resource != Host::"a.test" };`,
			[]string{"b.test"}, nil, []string{"a.test"},
		},
		{
			"forbid on every port", `permit (principal, ` + connectAction + `, resource) when { context.port > 0 }; forbid (principal, ` + connectAction + `, resource == Host::"A.test.");`,
			[]string{"b.test:22"}, nil, []string{"a.test", "a.test:22"},
		},
		{
			"forbid that names no action", `permit (principal, action, resource); forbid (principal, action, resource) unless { resource in [Dir::"/x"] };`,
			nil, nil, []string{"a.test"},
		},
		{
			"range", `permit (principal, ` + connectAction + `, resource) when { context has ip && context.ip.isInRange(ip("192.0.2.0/24")) };`,
			[]string{"192.0.2.9"}, nil, []string{"192.0.3.1", "a.test", "192.0.2.9:22"},
		},
		{
			"principal", `permit (principal in Agent::"claude", ` + connectAction + `, resource) when { principal in Project::"/src/p" };
			permit (principal in Agent::"codex", ` + connectAction + `, resource == Host::"b.test:22");`,
			[]string{"a.test"}, nil, []string{"b.test:22"},
		},
		{
			"is", `permit (principal, ` + connectAction + `, resource is Host) when { resource is Host in Host::"*.a.test" };`,
			[]string{"x.a.test"}, nil, []string{"a.test"},
		},
		{
			"v6", `permit (principal, ` + connectAction + `, resource in Host::"[2001:DB8::1]:8443"); permit (principal, ` + connectAction + `, resource == Host::"2001:db8:0::2");`,
			[]string{"[2001:db8::1]:8443", "[2001:db8::2]:443"}, nil, []string{"[2001:db8::1]:443", "[2001:db8::2]:8443"},
		},
		{
			"star", `permit (principal, ` + connectAction + `, resource) when { resource in [Host::"*"] };`,
			[]string{"a.test", "192.0.2.1"}, nil, []string{"a.test:22"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, cedarInput(tt.text))
			for want, dests := range map[policy.Effect][]string{policy.Allow: tt.allow, policy.Ask: tt.ask, policy.Deny: tt.deny} {
				for _, d := range dests {
					if v := decide(t, s, d); v.Effect != want || v.Diagnostic != "" || v.Reason == "" {
						t.Errorf("%s: %+v, want %s", d, v, want)
					}
				}
			}
		})
	}
	mcp := cedarInput(`permit (principal, action == Action::"McpCall", resource in MCP::Server::"mcp.test");
		forbid (principal in Agent::"codex", action == Action::"McpCall", resource in MCP::Server::"one.test");
		forbid (principal, action == Action::"McpCall", resource in MCP::Server::"https://two.test/mcp");`)
	mcp.Unlisted = policy.Ask
	s := compile(t, mcp)
	for _, d := range []string{"mcp.test", "one.test", "two.test"} {
		if v := decide(t, s, d); v.Effect != policy.Ask {
			t.Errorf("%s: %+v", d, v)
		}
	}
	for _, st := range s.Statements() {
		if st.Effect == policy.Deny && st.Hold != policy.Unkept {
			t.Errorf("what an MCP policy says is lost: %+v", st)
		}
	}
	for _, wide := range []string{`permit (principal, action, resource);`, `permit (principal, ` + connectAction + `, resource in Host::"*");`} {
		if w := compile(t, cedarInput(wide)).Warnings(); len(w) != 1 || !strings.Contains(w[0].Msg, "every host") {
			t.Errorf("%s: warnings %v", wide, w)
		}
	}
	v := decide(t, compile(t, cedarInput(`permit (principal, `+connectAction+`, resource == Host::"a.test");`)), "a.test:22")
	if !strings.Contains(v.Reason, "443 and 80 only") || v.Origin.Line != 1 {
		t.Errorf("the wrong port is not explained: %+v", v)
	}
}

// reference judges by stock cedar-go over printed text, with none of our
// index, rewriting or port rules: the entity of the destination is in each
// name that could stand for it.
type reference struct {
	ask, rest *cedar.PolicySet
	unlisted  policy.Effect
}

func newReference(t testing.TB, text string, unlisted policy.Effect) reference {
	t.Helper()
	list, err := cedar.NewPolicyListFromBytes("printed", []byte(text))
	if err != nil {
		t.Fatalf("printed policy: %v\n%s", err, text)
	}
	r := reference{ask: cedar.NewPolicySet(), rest: cedar.NewPolicySet(), unlisted: unlisted}
	for i, p := range list {
		set := r.rest
		if _, ask := p.Annotations()["ask"]; ask {
			set = r.ask
		}
		set.Add(cedar.PolicyID(fmt.Sprint(i)), p)
	}
	return r
}

func naiveRequest(a authority.Authority) (types.EntityMap, cedar.Request) {
	names := []string{a.Host(), "*"}
	context := types.RecordMap{"hostname": types.String(a.Host()), "port": types.Long(a.Port())}
	if addr, ok := a.Addr(); ok {
		ip, err := types.ParseIPAddr(addr.String())
		if err != nil {
			panic(err)
		}
		context["ip"] = ip
	} else {
		labels := strings.Split(a.Host(), ".")
		for i := 1; i < len(labels); i++ {
			names = append(names, "*."+strings.Join(labels[i:], "."))
		}
	}
	var parents []types.EntityUID
	for _, n := range names {
		withPort := fmt.Sprintf("%s:%d", n, a.Port())
		if strings.Contains(n, ":") {
			withPort = fmt.Sprintf("[%s]:%d", n, a.Port())
		}
		parents = append(parents, types.NewEntityUID("Host", types.String(n)), types.NewEntityUID("Host", types.String(withPort)))
	}
	uid := types.NewEntityUID("Host", "the destination")
	return types.EntityMap{uid: {UID: uid, Parents: types.NewEntityUIDSet(parents...)}},
		cedar.Request{Action: types.NewEntityUID("Action", "NetworkConnect"), Resource: uid, Context: types.NewRecord(context)}
}

func (r reference) decide(a authority.Authority) policy.Effect {
	entities, req := naiveRequest(a)
	restDecision, rest := cedar.Authorize(r.rest, entities, req)
	askDecision, _ := cedar.Authorize(r.ask, entities, req)
	switch {
	case restDecision == cedar.Deny && len(rest.Reasons) > 0:
		return policy.Deny
	case askDecision == cedar.Allow:
		return policy.Ask
	case restDecision == cedar.Allow:
		return policy.Allow
	}
	if _, isAddr := a.Addr(); isAddr {
		return policy.Deny
	}
	return r.unlisted
}

// TestIndexAgreesWithCedar: the index, its Cedar text by stock cedar-go, and
// that text loaded as a user's file, decide alike (PO-05).
func TestIndexAgreesWithCedar(t *testing.T) {
	hosts := []string{
		"a.test", "b.a.test", "c.b.a.test", "x.test", "xa.test", "example.com", "www.example.com", "deep.www.example.com",
		"192.0.2.1", "192.0.2.129", "198.51.100.1", "2001:db8::1", "2001:db8:1::1", "xn--bcher-kva.example",
	}
	domains := []string{"a.test", "*.a.test", "*.b.a.test", "B.A.test", "x.test", "*.example.com", "www.example.com", "192.0.2.1", "2001:db8::1", "*.bücher.example", "bücher.example"}
	broad := append(slices.Clone(domains), "*", "*.test", "*.com")
	cidrs := []string{"192.0.2.0/24", "192.0.2.128/25", "192.0.2.1/32", "198.51.100.0/24", "2001:db8::/32", "2001:db8:1::/48"}
	broadCIDRs := append(slices.Clone(cidrs), "0.0.0.0/0", "::/0")
	ports := []uint16{22, 80, 443, 5432}
	rapid.Check(t, func(rt *rapid.T) {
		rules := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) policy.Rule {
			r := policy.Rule{Effect: rapid.SampledFrom([]policy.Effect{policy.Deny, policy.Ask, policy.Allow}).Draw(rt, "effect")}
			names, ranges := broad, broadCIDRs
			if r.Effect == policy.Allow {
				names, ranges = domains, cidrs
			}
			if rapid.Bool().Draw(rt, "range") {
				r.CIDR = rapid.SampledFrom(ranges).Draw(rt, "cidr")
			} else {
				r.Domain = rapid.SampledFrom(names).Draw(rt, "domain")
			}
			if rapid.Bool().Draw(rt, "some ports") {
				r.Ports = rapid.SliceOfNDistinct(rapid.SampledFrom(ports), 1, 3, rapid.ID).Draw(rt, "ports")
			}
			return r
		}), 0, 12).Draw(rt, "rules")
		unlisted := rapid.SampledFrom([]policy.Effect{policy.Deny, policy.Ask}).Draw(rt, "unlisted")
		s, err := policy.Compile(policy.Input{Rules: rules, Unlisted: unlisted})
		if err != nil {
			rt.Fatal(err)
		}
		ref := newReference(t, s.Cedar(), unlisted)
		var again *policy.Snapshot
		if len(rules) > 0 {
			if again, err = policy.Compile(policy.Input{Cedar: []policy.CedarFile{{Name: "printed", Text: []byte(s.Cedar())}}, Unlisted: unlisted}); err != nil {
				rt.Fatalf("printed policy does not load: %v\n%s", err, s.Cedar())
			}
		}
		for range 30 {
			a, err := authority.Parse(rapid.SampledFrom(hosts).Draw(rt, "host"), rapid.SampledFrom(ports).Draw(rt, "port"))
			if err != nil {
				rt.Fatal(err)
			}
			req := policy.Request{Action: policy.NetworkConnect, Authority: a}
			got := policy.Decide(s, req)
			if want := ref.decide(a); got.Effect != want {
				rt.Fatalf("%s: index %s by %q, Cedar %s\n%s", a, got.Effect, got.Rule, want, s.Cedar())
			}
			if again != nil {
				if v := policy.Decide(again, req); v.Effect != got.Effect {
					rt.Fatalf("%s: index %s, the same text as a file %s by %q\n%s", a, got.Effect, v.Effect, v.Rule, s.Cedar())
				}
			}
			// DNS answers if and only if some port would.
			res := policy.Decide(s, policy.Request{Action: policy.NetworkResolve, Authority: a})
			best := policy.Deny
			for _, p := range append(ports, 1, 65535) {
				req.Authority = a.WithPort(p)
				best = max(best, policy.Decide(s, req).Effect)
			}
			if res.Effect != best {
				rt.Fatalf("%s: resolve %s, best port %s\n%s", a.Host(), res.Effect, best, s.Cedar())
			}
		}
	})
}

// FuzzCedarFile: any text is refused with its file's name or gives a snapshot
// that decides without panic; what could not be evaluated is a deny.
func FuzzCedarFile(f *testing.F) {
	text, err := os.ReadFile("testdata/leash.cedar")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	for _, s := range []string{
		"", "\ufeff", "permit (principal, action, resource);", "@ask permit (principal, action, resource);", "@aks permit (principal, action, resource);",
		`permit (principal, action == Action::"NetworkConnect", resource) when { context.port + 9223372036854775807 > 0 };`,
		`forbid (principal, action == Action::"NetworkConnect", resource) when { resource in [Host::"*.a.test:22"] || !(context has ip) };`,
		`permit (principal, action == Action::"NetworkConnect", resource) when { if context has ip then context.ip.isLoopback() else true };`,
		`permit (principal is Session in Agent::"x", action in [Action::"McpCall"], resource in MCP::Server::"a.test") unless { context["hostname"] like "*\*" };`,
		`permit (principal, action, resource) when { {a: 1}.a == [1,2,3].contains(1) };`, "permit (principal, action, resource) when { ((((((", "\"\\u{110000}\"", "// x",
	} {
		f.Add(s)
	}
	var dests []authority.Authority
	for _, d := range []string{"a.test:443", "x.a.test:22", "192.0.2.1:80", "[::1]:443"} {
		a, err := authority.ParseHostPort(d, 0)
		if err != nil {
			f.Fatal(err)
		}
		dests = append(dests, a)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := policy.Compile(cedarInput(text))
		if err != nil {
			var se *source.Problem
			if !errors.As(err, &se) || se.File != "my.cedar" || se.Msg == "" || se.Line < 0 || se.Column < 0 {
				t.Fatalf("%#v", err)
			}
			return
		}
		for _, a := range dests {
			for _, action := range []policy.Action{policy.NetworkConnect, policy.NetworkResolve} {
				r := policy.Request{Action: action, Authority: a}
				v := policy.Decide(s, r)
				if v.Reason == "" || v.Rule == "" && v.Origin.Line == 0 {
					t.Fatalf("unexplained: %+v", v)
				}
				if v.Diagnostic != "" && v.Effect != policy.Deny {
					t.Fatalf("could not be evaluated, yet %+v", v)
				}
			}
			if e := policy.Explain(s, policy.Request{Action: policy.NetworkConnect, Authority: a}); e.String() == "" {
				t.Fatal("no explanation")
			}
		}
		if _, err := policy.Compile(policy.Input{Cedar: []policy.CedarFile{{Name: "again", Text: []byte(s.Cedar())}}}); err != nil {
			t.Fatalf("printed text does not load: %v", err)
		}
	})
}

// FuzzRule: whatever a rule says, it is refused, or it compiles to text that
// loads; an allow reaches nothing outside its own pattern.
func FuzzRule(f *testing.F) {
	f.Add("*.example.com", "", uint16(443), uint8(2), "a.example.com")
	f.Add("", "10.0.0.0/8", uint16(0), uint8(0), "10.0.0.1")
	f.Add("a\nb", "::/0", uint16(22), uint8(1), "0x7f.1")
	f.Add("\"]};permit(principal,action,resource);//", "", uint16(1), uint8(2), "b.test")
	f.Fuzz(func(t *testing.T, domain, cidr string, port uint16, effect uint8, host string) {
		r := policy.Rule{Effect: policy.Effect(effect % 4), Domain: domain, CIDR: cidr, Origin: source.Position{Source: domain + "\n;"}}
		if port != 0 {
			r.Ports = []uint16{port}
		}
		s, err := policy.Compile(policy.Input{Rules: []policy.Rule{r}})
		if err != nil {
			return
		}
		if _, err := policy.Compile(policy.Input{Cedar: []policy.CedarFile{{Name: "printed", Text: []byte(s.Cedar())}}}); err != nil {
			t.Fatalf("printed text does not load: %v\n%s", err, s.Cedar())
		}
		a, err := authority.Parse(host, 443)
		if err != nil || r.Effect != policy.Allow {
			return
		}
		if v := policy.Decide(s, policy.Request{Action: policy.NetworkConnect, Authority: a}); v.Effect != policy.Allow {
			return
		}
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			if addr, ok := a.Addr(); !ok || !prefix.Contains(addr) {
				t.Fatalf("%s is allowed by %s", a, cidr)
			}
			return
		}
		p, err := authority.ParsePattern(domain)
		if err != nil || !p.Match(host) {
			t.Fatalf("%s is allowed by %q", a, domain)
		}
	})
}
