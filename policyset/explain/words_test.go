package explain_test

import (
	"strings"
	"testing"

	"cloister/api"
	"cloister/config"
	"cloister/policy"
	"cloister/policyset/explain"

	"github.com/google/go-cmp/cmp"
)

func TestQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		words explain.Words
		args  []string
		want  api.ExplainRequest
	}{
		"a host": {explain.Words{}, []string{"example.com"}, api.ExplainRequest{Connect: "example.com:443", Path: "/"}},
		"a URL": {explain.Words{}, []string{"http://example.com/a?b#c"},
			api.ExplainRequest{Connect: "example.com:80", Method: "GET", Path: "/a", Query: "b"}},
		"a request line": {explain.Words{}, []string{"DELETE", "https://example.com"},
			api.ExplainRequest{Connect: "example.com:443", Method: "DELETE", Path: "/"}},
		"turned round": {explain.Words{}, []string{"https://example.com", "DELETE"},
			api.ExplainRequest{Connect: "example.com:443", Method: "DELETE", Path: "/"}},
		"a call": {explain.Words{Arguments: `{"a":1}`}, []string{"mcp", "github", "create"},
			api.ExplainRequest{MCP: &api.ExplainCall{Server: "github", Name: "create", Arguments: []byte(`{"a":1}`)}}},
		"a secret": {explain.Words{}, []string{"secret", "TOKEN", "https://example.com/"},
			api.ExplainRequest{Connect: "example.com:443", Method: "GET", Path: "/", Secret: "TOKEN"}},
		"a file": {explain.Words{}, []string{"file", "write", "/a"},
			api.ExplainRequest{File: &api.ExplainFile{Use: "write", Path: "/a"}}},
		"git": {explain.Words{Method: policy.GitPush}, []string{"ssh://git@example.com/a.git"},
			api.ExplainRequest{Connect: "example.com:22",
				Login: &api.LoginRequest{Protocol: "ssh", User: "git", Repository: "/a.git", Push: true}}},
		"a database": {explain.Words{}, []string{"postgresql://app@example.com"},
			api.ExplainRequest{Connect: "example.com:5432",
				Login: &api.LoginRequest{Protocol: "postgres", User: "app", Database: "app"}}},
	} {
		got, err := c.words.Question(c.args)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestNoQuestion(t *testing.T) {
	for _, c := range []struct {
		words      explain.Words
		args, want string
	}{
		{explain.Words{}, "gopher://example.com", "the scheme"},
		{explain.Words{Method: "G T"}, "https://example.com", "is no method"},
		{explain.Words{Method: "GET", Headers: []string{"x"}}, "example.com", "is no header"},
		{explain.Words{Headers: []string{"a: b"}}, "example.com", "a connection has no headers"},
		{explain.Words{Arguments: "{}"}, "example.com", "are of a call to an MCP server"},
		{explain.Words{Method: "GET"}, "mcp github", "has no method and no headers"},
		{explain.Words{Arguments: "1"}, "mcp github x", "no JSON object"},
		{explain.Words{}, "ssh://example.com", "a login has a user"},
		{explain.Words{Headers: []string{"a: b"}}, "ssh://git@example.com", "a login has no headers"},
		{explain.Words{Method: "steal"}, "ssh://git@example.com/a", "of a login"},
		{explain.Words{}, "secret x:y https://example.com", "policy explain:"},
		{explain.Words{}, "example.com other.example", "explains nothing"},
	} {
		if got, err := c.words.Question(strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %+v, %v, want %q", c.args, got, err, c.want)
		}
	}
}

func TestExpected(t *testing.T) {
	read := func(text string) []config.PolicyTest {
		tests, err := config.ParsePolicyTests("tests.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return tests
	}
	got, err := explain.Expected(read(`tests:
  - {name: reachable, connect: "api.example.com:443", want: allow}
  - {request: "DELETE https://api.example.com/x?y", headers: {X-Team: blue, A: b}, want: ask}
`))
	if err != nil || len(got) != 2 || got[0].Connect != "api.example.com:443" || got[0].Want != policy.Allow || got[0].HTTP != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if q := got[1].HTTP; got[1].Want != policy.Ask || got[1].Connect != "api.example.com:443" || q == nil || q.Method != "DELETE" {
		t.Errorf("%+v", got[1])
	}
	_, err = explain.Expected(read("tests:\n  - {request: api.example.com, want: ask}\n"))
	if err == nil || !strings.Contains(err.Error(), "tests.yaml:2:") || !strings.Contains(err.Error(), "want METHOD URL") {
		t.Errorf("%v", err)
	}
}
