package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/policy"
)

func mcpInput(t *testing.T, cedar string) policy.Input {
	t.Helper()
	a, err := authority.Parse("mcp.example.com", 443)
	if err != nil {
		t.Fatal(err)
	}
	in := policy.Input{Servers: []policy.MCPServer{{
		Name: "files", URL: "https://mcp.example.com/mcp", Authority: a,
		AllowTools: []string{"read_*", "search"}, AskTools: []string{"write_*"}, DenyTools: []string{"read_secret*"},
		Prompts: []string{"greet"}, Resources: []string{"docs://*", "file:///project/*"},
		Elicitation: policy.Ask, Origin: source.Position{Source: "config.yaml", File: "config.yaml", Line: 4},
	}}}
	if cedar != "" {
		in.Cedar = []policy.CedarFile{{Name: "mcp.cedar", Text: []byte(cedar)}}
	}
	return in
}

func call(t *testing.T, s *policy.Snapshot, f policy.Feature, name, args string) policy.Verdict {
	t.Helper()
	a, err := authority.Parse("mcp.example.com", 443)
	if err != nil {
		t.Fatal(err)
	}
	var arguments map[string]any
	if args != "" {
		d := json.NewDecoder(strings.NewReader(args))
		d.UseNumber()
		if err := d.Decode(&arguments); err != nil {
			t.Fatal(err)
		}
	}
	return policy.Decide(s, policy.Request{
		Action: policy.McpCall, Authority: a, Session: "s", Agent: "claude",
		MCP: &policy.MCPCall{Server: "files", Feature: f, Name: name, Arguments: arguments},
	})
}

func TestMCPLists(t *testing.T) { // PO-11 too
	s := compile(t, mcpInput(t, ""))
	for _, tc := range []struct {
		feature policy.Feature
		name    string
		want    policy.Effect
	}{
		{policy.Tool, "read_file", policy.Allow},
		{policy.Tool, "search", policy.Allow},
		{policy.Tool, "searches", policy.Deny},
		{policy.Tool, "write_file", policy.Ask},
		{policy.Tool, "Write-file", policy.Ask}, // looks like one that is asked about
		{policy.Tool, "read_secret", policy.Deny},
		{policy.Tool, "read_5ecret", policy.Deny}, // looks like one that is denied
		{policy.Tool, "READ_file", policy.Deny},
		{policy.Tool, "read_\u0430", policy.Deny}, // Cyrillic
		{policy.Tool, "read_ x", policy.Deny},
		{policy.Tool, "", policy.Deny},
		{policy.Tool, strings.Repeat("read_", 100), policy.Deny},
		{policy.Prompt, "greet", policy.Allow},
		{policy.Prompt, "read_file", policy.Deny},
		{policy.Resource, "docs://a/b", policy.Allow},
		{policy.Resource, "file:///project/x", policy.Allow},
		{policy.Resource, "file:///project/../etc/passwd", policy.Deny},
		{policy.Resource, "file:///project/%2e%2e/etc/passwd", policy.Deny},
		{policy.Resource, "file:///project/..%2fetc", policy.Deny},
		{policy.Resource, "file:///etc/passwd", policy.Deny},
		{policy.Resource, "http://169.254.169.254/", policy.Deny},
		{policy.Sampling, "", policy.Deny},
		{policy.Elicitation, "", policy.Ask},
		{policy.Roots, "", policy.Deny},
		{policy.Feature(0), "x", policy.Deny},
	} {
		if v := call(t, s, tc.feature, tc.name, ""); v.Effect != tc.want || v.Reason == "" {
			t.Errorf("%s %q: %+v, want %s", tc.feature, tc.name, v, tc.want)
		}
	}
	if v := call(t, s, policy.Tool, "other", ""); len(v.Hints) != 1 || !strings.Contains(v.Hints[0], `allow_tools: ["other"]`) {
		t.Errorf("no words that would allow it: %+v", v)
	}
	if v := policy.Decide(s, policy.Request{Action: policy.McpCall}); v.Effect != policy.Deny {
		t.Errorf("no call: %+v", v)
	}
}

func TestMCPArguments(t *testing.T) {
	s := compile(t, mcpInput(t, `
permit (principal, action == Action::"McpCall", resource == MCP::Tool::"move")
when { context.arguments has to && context.arguments.to like "/project/*" };
forbid (principal, action == Action::"McpCall", resource in MCP::Tool::"read_*")
when { context.arguments has path && context.arguments.path like "/etc/*" };
forbid (principal, action == Action::"McpCall", resource == MCP::Tool::"search")
when { context.arguments.limit > 100 };
@ask permit (principal, action == Action::"McpCall", resource in MCP::Server::"files")
when { context.name == "list" && context.arguments has deep && context.arguments.deep.at.contains("x") };
forbid (principal in Agent::"codex", action == Action::"McpCall", resource in MCP::Server::"mcp.example.com");`))
	for _, tc := range []struct {
		tool, args string
		want       policy.Effect
		diagnostic bool
	}{
		{"move", `{"to": "/project/a"}`, policy.Allow, false},
		{"move", `{"to": "/etc/a"}`, policy.Deny, false},
		{"move", ``, policy.Deny, false},
		{"read_file", `{"path": "/project/a"}`, policy.Allow, false},
		{"read_file", `{"path": "/etc/passwd"}`, policy.Deny, false},
		{"read_file", `{"path": 7}`, policy.Deny, true},             // the forbid errs
		{"read_file", `{"Path": "/etc/passwd"}`, policy.Deny, true}, // a server may read it as path
		{"read_file", `{"o": [{"PATH": "/x"}]}`, policy.Deny, true}, // at any depth
		{"search", `{"limit": 100}`, policy.Allow, false},
		{"search", `{"limit": 1e2}`, policy.Allow, false},
		{"search", `{"limit": 101}`, policy.Deny, false},
		{"search", `{"limit": 1.01e2}`, policy.Deny, false},
		{"search", `{"limit": "101"}`, policy.Deny, true},
		{"search", `{}`, policy.Deny, true}, // the forbid errs without it: nobody knows what it would have said
		{"list", `{"deep": {"at": ["y", "x"]}}`, policy.Ask, false},
		{"list", `{"deep": {"at": ["y"]}}`, policy.Deny, false},
	} {
		v := call(t, s, policy.Tool, tc.tool, tc.args)
		if v.Effect != tc.want || (v.Diagnostic != "") != tc.diagnostic {
			t.Errorf("%s %s: %+v, want %s", tc.tool, tc.args, v, tc.want)
		}
	}
	if st := s.Statements()[1]; st.Hold != policy.InPart {
		t.Errorf("a tool of any server: %+v", st)
	}
	if st := s.Statements()[4]; st.Hold != policy.Kept {
		t.Errorf("a server that is declared: %+v", st)
	}
	for _, bad := range []string{
		`forbid (principal, action == Action::"McpCall", resource) when { context.argument.x == 1 };`,
		`forbid (principal, action == Action::"NetworkConnect", resource) when { context.arguments.x == 1 };`,
		`forbid (principal, action == Action::"McpCall", resource == MCP::Tol::"x");`,
	} {
		if _, err := policy.Compile(mcpInput(t, bad)); err == nil {
			t.Errorf("loads: %s", bad)
		}
	}
}

// A person's answer stands before ask, and behind every forbid.
func TestMCPAnswers(t *testing.T) {
	in := mcpInput(t, `forbid (principal, action == Action::"McpCall", resource == MCP::Tool::"write_all");`)
	s := compile(t, in)
	with, err := s.With([]policy.Rule{
		{Effect: policy.Allow, Tool: "files/write_file"}, {Effect: policy.Allow, Tool: "files/write_all"},
		{Effect: policy.Allow, Tool: "files/read_secret"}, {Effect: policy.Deny, Tool: "files/read_file"},
		{Effect: policy.Allow, Tool: "files/read_file"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]policy.Effect{"write_file": policy.Allow, "write_all": policy.Deny, "read_secret": policy.Deny, "read_file": policy.Deny, "write_x": policy.Ask} {
		if v := call(t, with, policy.Tool, tool, ""); v.Effect != want {
			t.Errorf("%s: %+v, want %s", tool, v, want)
		}
	}
	if v := call(t, s, policy.Tool, "write_file", ""); v.Effect != policy.Ask || with.Digest() == s.Digest() {
		t.Errorf("the snapshot itself changed: %+v", v)
	}
}

// A forbid of a whole server holds for its calls, by whichever of its names: one that is started
// has no connection that could be refused.
func TestMCPWholeServerForbidden(t *testing.T) {
	for _, name := range []string{"files", "mcp.example.com", "mcp.example.com:443", "https://mcp.example.com/mcp"} {
		s := compile(t, mcpInput(t, `forbid (principal, action == Action::"McpCall", resource) when { resource in [MCP::Server::"`+name+`"] };`))
		if v := call(t, s, policy.Tool, "search", ""); v.Effect != policy.Deny || !strings.Contains(v.Rule, "mcp.cedar") {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := call(t, compile(t, mcpInput(t, `forbid (principal, action == Action::"McpCall", resource in MCP::Server::"other.test");`)), policy.Tool, "search", ""); v.Effect != policy.Allow {
		t.Errorf("another server: %+v", v)
	}
}
