package policyset

import (
	"fmt"
	"net/http"
	"path/filepath"

	"cloister/config"
	"cloister/policy"
)

// addServers puts the declared MCP servers into what policy is compiled from: the
// rules about their calls, and one rule that lets requests through to them.
func addServers(in *policy.Input, list []config.MCPServer) error {
	for _, s := range list {
		to, at, err := s.Address()
		if err != nil {
			return fmt.Errorf("mcp.servers: %w", err)
		}
		origin := s.Place.From(filepath.Base(s.Place.File))
		effect := func(w config.MCPWord) policy.Effect {
			e, err := policy.ParseEffect(string(w))
			if err != nil {
				return policy.Deny // the configuration has no word for it
			}
			return e
		}
		in.Servers = append(in.Servers, policy.MCPServer{
			Name: s.Name, URL: s.URL, Authority: to, Path: at,
			AllowTools: s.AllowTools, AskTools: s.AskTools, DenyTools: s.DenyTools, Prompts: s.Prompts, Resources: s.Resources,
			Sampling: effect(s.Sampling), Elicitation: effect(s.Elicitation), Roots: effect(s.Roots), Origin: origin,
		})
		in.Rules = append(in.Rules, policy.Rule{
			Effect: policy.Allow, Domain: to.Host(), Ports: []uint16{to.Port()},
			Methods: []string{http.MethodPost, http.MethodGet, http.MethodDelete}, Paths: []string{at}, Origin: origin,
		})
	}
	return nil
}
