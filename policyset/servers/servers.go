// Package servers tells of the MCP servers that a configuration declares, with the
// tools that they were seen to have.
//
// Promise: a tool's words are rendered, and its verdict is policy's; a server's pins
// change only to what someone looked at.
//
// It speaks with no server and records nothing.
//
// Most readers want [List].
package servers

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"

	"cloister/api"
	"cloister/config"
	"cloister/internal/nearest"
	"cloister/internal/source"
	"cloister/internal/termsafe"
	"cloister/internal/xdg"
	"cloister/mcp"
	"cloister/policy"
	"cloister/policyset"
)

// PinsFile is where the definitions of tools lie that a person lives with.
func PinsFile(dirs xdg.Dirs) string { return filepath.Join(dirs.State, "mcp", "pins.json") }

// List are the declared servers of a configuration and of a project's files,
// with how many of their tools are pinned.
func List(l *policyset.Set, pins *mcp.Pins, of api.MCPProject) ([]api.MCPServer, error) {
	in, err := l.Scope(of.Projects)
	if err != nil {
		return nil, err
	}
	out := []api.MCPServer{}
	for _, s := range in.Servers {
		one, err := shown(s, pins, in.Pinned(s.Name, of.Project))
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func shown(s config.MCPServer, pins *mcp.Pins, pinned string) (api.MCPServer, error) {
	to, path, err := s.Address()
	if err != nil {
		return api.MCPServer{}, fmt.Errorf("mcp.servers: %w", err)
	}
	list := func(l []string) []string { return append([]string{}, l...) }
	word := func(w config.MCPWord) string {
		if w == "" {
			return policy.Deny.String()
		}
		return string(w)
	}
	out := api.MCPServer{
		Name: s.Name, URL: s.URL, Command: s.Command, At: s.URL,
		Place:      source.Position{Source: filepath.Base(s.Place.File), File: s.Place.File, Line: s.Place.Line}.Place(),
		AllowTools: list(s.AllowTools), AskTools: list(s.AskTools), DenyTools: list(s.DenyTools), Prompts: list(s.Prompts),
		Resources: list(s.Resources),
		Sampling:  word(s.Sampling), Elicitation: word(s.Elicitation), Roots: word(s.Roots),
	}
	if s.URL == "" {
		out.At = "http://" + to.Host() + path
	}
	known, err := pins.Of(pinned)
	if err != nil {
		return out, err
	}
	out.Pinned = len(known)
	for _, p := range known {
		if p.Seen != nil {
			out.Changed++
		}
	}
	return out, nil
}

// Find is one of them, with its tools as they were listed.
func Find(l *policyset.Set, pins *mcp.Pins, name string, of api.MCPProject) (api.MCPServer, error) {
	s, pinned, err := Declared(l, name, of)
	if err != nil {
		return api.MCPServer{}, err
	}
	out, err := shown(s, pins, pinned)
	if err != nil {
		return out, err
	}
	snapshot, err := l.In(of.Project, of.Projects)
	if err != nil {
		return out, err
	}
	known, err := pins.Of(pinned)
	if err != nil {
		return out, err
	}
	to, _, err := s.Address()
	if err != nil {
		return out, fmt.Errorf("mcp.servers: %w", err)
	}
	for _, tool := range slices.Sorted(maps.Keys(known)) {
		p := known[tool]
		feature, called := mcp.Feature(tool)
		v := policy.Decide(snapshot, policy.Request{
			Action: policy.McpCall, Authority: to, Project: of.Project,
			MCP: &policy.MCPCall{Server: name, Feature: feature, Name: called},
		})
		if tool == mcp.Itself {
			v = policy.Verdict{Effect: policy.Allow, Reason: "what the server says of itself"}
		}
		d := mcp.Definition{Name: tool, Digest: p.Digest, Text: p.Definition}
		t := api.MCPTool{
			Name: tool, Verdict: v.Effect.String(), Rule: v.RuleAt(), Reason: v.Reason,
			Digest: d.Digest, Description: termsafe.Lines(d.Description()), Schema: termsafe.Text(d.Schema()), PinnedAt: p.At,
			PinnedBy: p.By,
		}
		if p.Seen != nil {
			now := mcp.Definition{Name: tool, Digest: p.Seen.Digest, Text: p.Seen.Definition}
			t.Changed = &api.MCPDefinition{Digest: now.Digest, Description: termsafe.Lines(now.Description()),
				Schema: termsafe.Text(now.Schema()), SeenAt: p.Seen.At, Members: members(d, now)}
		}
		out.Tools = append(out.Tools, t)
	}
	return out, nil
}

// Declared finds a server by its name, and the name that its pins have.
func Declared(l *policyset.Set, name string, of api.MCPProject) (config.MCPServer, string, error) {
	in, err := l.Scope(of.Projects)
	if err != nil {
		return config.MCPServer{}, "", err
	}
	var names []string
	for _, s := range in.Servers {
		if s.Name == name {
			return s, in.Pinned(name, of.Project), nil
		}
		names = append(names, s.Name)
	}
	e := &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
		Message: fmt.Sprintf("no MCP server %q is declared", name), Hints: []string{"see: cloister mcp list"}}
	if near := nearest.Word(name, names); near != "" {
		e.Hints = []string{"did you mean " + near + "?"}
	}
	return config.MCPServer{}, "", e
}

// Pin takes what a server says of its tools now, or forgets them.
func Pin(l *policyset.Set, pins *mcp.Pins, name string, req api.MCPPin, by string) (api.MCPPinned, error) {
	out := api.MCPPinned{Server: name, Tools: []string{}}
	_, pinned, err := Declared(l, name, req.MCPProject)
	if err != nil {
		return out, err
	}
	known, err := pins.Of(pinned)
	if err != nil {
		return out, err
	}
	for _, t := range req.Tools {
		if _, ok := known[t]; !ok {
			e := &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
				Message: fmt.Sprintf("pin: the server %s has never listed a tool %q that may be used", name, t),
				Hints:   []string{"see: cloister mcp inspect " + name}}
			if near := nearest.Word(t, slices.Sorted(maps.Keys(known))); near != "" {
				e.Hints = []string{"did you mean " + near + "?"}
			}
			return out, e
		}
	}
	var done []string
	if req.Forget {
		done, err = pins.Forget(pinned, req.Tools)
	} else {
		digests := map[string]string{}
		for t, p := range known {
			if p.Seen != nil && (len(req.Tools) == 0 || slices.Contains(req.Tools, t)) {
				digests[t] = req.Digests[t]
			}
		}
		done, err = pins.Take(pinned, digests, by)
	}
	if err != nil {
		return out, &api.Error{Status: http.StatusConflict, Code: api.CodeOver, Message: err.Error(),
			Hints: []string{"look again: cloister mcp inspect " + name}}
	}
	out.Tools = append(out.Tools, done...)
	return out, nil
}

// members are what differs between two definitions.
func members(before, now mcp.Definition) []api.MCPMember {
	old, said := before.Members(), now.Members()
	names := maps.Clone(old)
	maps.Copy(names, said)
	var out []api.MCPMember
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if old[name] != said[name] {
			out = append(out, api.MCPMember{Name: termsafe.Text(name), Before: termsafe.Lines(old[name]),
				Now: termsafe.Lines(said[name])})
		}
	}
	return out
}
