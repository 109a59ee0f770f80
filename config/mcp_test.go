package config_test

import (
	"strings"
	"testing"

	"cloister/config"
)

func TestMCPServers(t *testing.T) {
	c, err := config.Parse("c", []byte(`version: 1
mcp:
  servers:
    - {url: "https://MCP.example.com/mcp", allow_tools: ["search_*"], ask_tools: [write], deny_tools: ["*secret*"], arguments: text}
    - {name: two, url: "http://mcp.example.com:8080", sampling: ask}
    - {name: files, command: [npx, -y, server], env: {A: b}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ name, at string }{{"mcp.example.com", "mcp.example.com:443/mcp"}, {"two", "mcp.example.com:8080/"}, {"files", "files.mcp.internal:80/mcp"}} {
		s := c.MCP.Servers[i]
		a, path, err := s.Address()
		if err != nil || s.Name != want.name || a.String()+path != want.at {
			t.Errorf("%d: %q at %s%s, %v", i, s.Name, a, path, err)
		}
	}
	for name, tc := range map[string]struct{ server, want string }{
		"neither":     {`{name: x}`, "exactly one of url and command"},
		"both":        {`{url: "https://a.example/", command: [x]}`, "exactly one of url and command"},
		"no name":     {`{command: [x]}`, "the name"},
		"odd name":    {`{name: "A b", command: [x]}`, "the name"},
		"a scheme":    {`{url: "ftp://a.example/"}`, "neither https"},
		"a password":  {`{url: "https://u:p@a.example/"}`, "more than a host and a path"},
		"a query":     {`{url: "https://a.example/?x"}`, "more than a host and a path"},
		"no host":     {`{url: "https:///mcp"}`, "mcp.servers[0]"},
		"env":         {`{url: "https://a.example/", env: {A: b}}`, "env is of a command"},
		"a word":      {`{url: "https://a.example/", sampling: yes-please}`, "is not a value"},
		"odd tool":    {`{url: "https://a.example/", allow_tools: ["a b"]}`, "can never be a name"},
		"other spell": {`{url: "https://a.example/", allow_tool: [a]}`, "unknown key"},
		"twice":       {`{url: "https://a.example/"}, {url: "https://a.example/x"}`, "two servers are called"},
		"one place":   {`{name: a, url: "https://a.example/"}, {name: b, url: "https://A.example:443"}`, "two servers have this url"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("c", []byte("version: 1\nmcp: {servers: ["+tc.server+"]}\n"))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "c:2:") {
				t.Errorf("%v", err)
			}
		})
	}
}
