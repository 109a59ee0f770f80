package config

import (
	"fmt"
	"net/url"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/source"
)

// MCP says which MCP servers there are, and what of them may be used.
type MCP struct {
	// MCP servers whose every call is judged. A tool, prompt or resource that no list names is denied.
	Servers []MCPServer `json:"servers"`
}

// MCPServer is one server: reached at a URL, or a command that the guardian runs
// on the host and offers inside at http://NAME.mcp.internal/mcp.
type MCPServer struct {
	// What it is called in rules, questions and the record; the host of its url where absent.
	Name string `json:"name"`
	// Where it is reached. The host need not be allowed besides.
	URL string `json:"url"`
	// A program with its arguments that speaks MCP on stdin and stdout. It runs on the host, with your
	// rights, outside every project.
	Command []string `json:"command"`
	// Variables of that program, besides PATH, HOME and LANG.
	Env map[string]string `json:"env"`

	// Tools that may be called. * is any text.
	AllowTools []string `json:"allow_tools"`
	// Tools that a person is asked about, each time.
	AskTools []string `json:"ask_tools"`
	// Tools that may not be called. It wins.
	DenyTools []string `json:"deny_tools"`
	// Prompts that may be used. * is any text.
	Prompts []string `json:"prompts"`
	// URIs of resources that may be read. * is any text: docs://*.
	Resources []string `json:"resources"`

	// Whether it may ask the agent's model; deny unless said.
	Sampling MCPWord `json:"sampling"`
	// Whether it may ask the agent's user; deny unless said.
	Elicitation MCPWord `json:"elicitation"`
	// Whether it may ask for the agent's folders, of which only those in the project are told; deny
	// unless said.
	Roots MCPWord `json:"roots"`

	// What the record has of a call's arguments: their digest, or also their text.
	Arguments MCPRecord       `json:"arguments"`
	Place     source.Position `json:"-"`
}

// MCPWord is what becomes of something.
type MCPWord string

// MCPRecord is what the record has of arguments.
type MCPRecord string

// ArgumentsText records arguments as they are.
const ArgumentsText MCPRecord = "text"

func (MCPWord) words() []string   { return []string{"allow", "ask", "deny"} }
func (MCPRecord) words() []string { return []string{"digest", string(ArgumentsText)} }

// mcpZone is below what names the guardian offers its own servers at. No name
// server has it: internal is reserved for private use.
const mcpZone = ".mcp.internal"

// Address is where a server is reached inside. It is of one that was checked.
func (s MCPServer) Address() (a authority.Authority, path string, err error) {
	if len(s.Command) > 0 {
		a, err = authority.Parse(s.Name+mcpZone, 80)
		return a, "/mcp", err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return a, "", fmt.Errorf("url %q cannot be read", s.URL)
	}
	implied := map[string]uint16{"https": 443, "http": 80}[u.Scheme]
	switch {
	case implied == 0:
		return a, "", fmt.Errorf("url %q is neither https:// nor http://", s.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return a, "", fmt.Errorf("url %q has more than a host and a path", s.URL)
	}
	if a, err = authority.ParseHostPort(u.Host, implied); err != nil {
		return a, "", err
	}
	if path = u.EscapedPath(); path == "" {
		path = "/"
	}
	return a, path, nil
}

// servers checks the servers, and names those that have no name.
func (r *reader) servers(list []MCPServer) {
	seen, where := map[string]bool{}, map[string]bool{}
	for i := range list {
		s, key := &list[i], at("mcp.servers", i)
		if s.Place.Line == 0 {
			continue // said already
		}
		if (s.URL == "") == (len(s.Command) == 0) {
			r.problem(s.Place, "", "%s: a server has exactly one of url and command", key)
			continue
		}
		if s.URL != "" {
			a, _, err := s.Address()
			if err != nil {
				r.problem(s.Place, "", "%s: %v", key, err)
				continue
			}
			if s.Name == "" {
				s.Name = a.Host()
			}
		}
		r.server(s, key)
		if s.Name == "" || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" || len(s.Name) > 60 {
			r.problem(s.Place, "write name: and small letters, digits, - and .", "%s: the name %q is none", key, s.Name)
			continue
		}
		a, path, err := s.Address()
		switch {
		case err != nil:
			r.problem(s.Place, "", "%s: %v", key, err)
		case seen[s.Name]:
			r.problem(s.Place, "give one of them another name: name: …", "%s: two servers are called %q", key, s.Name)
		case where[a.String()+path]:
			r.problem(s.Place, "", "%s: two servers have this url", key)
		}
		seen[s.Name], where[a.String()+path] = true, true
	}
}

func (r *reader) server(s *MCPServer, key string) {
	if s.URL != "" && len(s.Env) > 0 {
		r.problem(r.places[key+".env"], "", "%s: env is of a command, and this server is reached by url", key)
	}
	for list, globs := range map[string][]string{"allow_tools": s.AllowTools, "ask_tools": s.AskTools,
		"deny_tools": s.DenyTools, "prompts": s.Prompts, "resources": s.Resources} {
		for j, g := range globs {
			if strings.ContainsFunc(g, func(c rune) bool { return c <= ' ' || c > '~' }) {
				r.problem(r.places[at(key+"."+list, j)], "names of tools are ASCII without spaces",
					"%s: %s: %q can never be a name", key, list, g)
			}
		}
	}
}
