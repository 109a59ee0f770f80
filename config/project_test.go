package config_test

import (
	"strings"
	"testing"

	"cloister/config"
)

func TestProjectSecretsAndServers(t *testing.T) {
	const text = `
secrets: [{name: TOKEN, hosts: [api.example]}]
mcp: {servers: [{url: "https://mcp.example/mcp", allow_tools: ["read_*"]}]}
`
	p, err := config.ParseProject("/p/.cloister.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Secrets) != 1 || len(p.MCP.Servers) != 1 || p.MCP.Servers[0].Name != "mcp.example" {
		t.Errorf("read as %+v", p)
	}
	if !p.Widens(config.Default()) {
		t.Error("a repository's secrets and servers need no trust")
	}
	if n := p.Narrowed(); len(n.Secrets)+len(n.MCP.Servers) > 0 || n.Widens(config.Default()) {
		t.Errorf("narrowed it is %+v", n)
	}

	const command = "mcp:\n  servers:\n    - {name: files, command: [sh, -c, evil], allow_tools: [x]}\n"
	if _, err := config.ParseProject("/c/projects/p.yaml", []byte(command)); err != nil {
		t.Errorf("a person's own command: %v", err)
	}
	for text, want := range map[string]string{
		command:                                 "/p/.cloister.yaml:3:30: mcp.servers[0]: a repository does not say what runs on the host",
		"secrets: [{name: TOKEN, hosts: []}]":   "no host is named",
		"secrets: [{nam: TOKEN}]":               "unknown key",
		"mcp: {servers: [{url: \"ftp://x/\"}]}": "neither https:// nor http://",
	} {
		_, err := config.ParseProject("/p/.cloister.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
