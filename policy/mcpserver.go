package policy

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/internal/urlpath"

	"github.com/cedar-policy/cedar-go/types"
)

// Feature is what of an MCP server a call is about.
type Feature uint8

// The features that rules speak of. Sampling, elicitation and roots are what a
// server asks of the program inside.
const (
	Tool Feature = iota + 1
	Prompt
	Resource
	Sampling
	Elicitation
	Roots
)

func (f Feature) String() string {
	switch f {
	case Tool:
		return "tool"
	case Prompt:
		return "prompt"
	case Resource:
		return "resource"
	case Sampling:
		return "sampling"
	case Elicitation:
		return "elicitation"
	case Roots:
		return "roots"
	}
	return "feature(" + strconv.Itoa(int(f)) + ")"
}

// MCPServer is a server whose calls are judged: what its rules name. In the lists
// * stands for any characters. A tool, prompt or resource that no list and no
// Cedar policy names is denied.
type MCPServer struct {
	Name      string
	URL       string              // as it was declared; empty for one that is started
	Authority authority.Authority // where it is reached
	Path      string              // of its requests there
	// AllowTools, AskTools and DenyTools name tools; Prompts and Resources those
	// that may be used, the latter by their URIs.
	AllowTools, AskTools, DenyTools, Prompts, Resources []string
	// Sampling, Elicitation and Roots are what becomes of what it asks of the
	// program inside.
	Sampling, Elicitation, Roots Effect
	Origin                       source.Position
}

// MCPSubject is the subject of a remembered answer about a tool.
func MCPSubject(server, tool string) string { return server + "/" + tool }

// compileServers checks the declared servers.
func compileServers(in []MCPServer) (map[string]*MCPServer, []error) {
	out := map[string]*MCPServer{}
	var errs []error
	for _, s := range in {
		if out[s.Name] != nil {
			errs = append(errs, problem(s.Origin, fmt.Sprintf("two MCP servers are called %q", s.Name),
				"give one another name: name: …"))
			continue
		}
		out[s.Name] = &s
	}
	return out, errs
}

// words are the server in the digest.
func (s *MCPServer) words() string {
	return fmt.Sprintf("mcp %q %q %s%s tools %q ask %q deny %q prompts %q "+
		"resources %q sampling %s elicitation %s roots %s",
		s.Name, s.URL, s.Authority, s.Path, s.AllowTools, s.AskTools, s.DenyTools, s.Prompts, s.Resources, s.Sampling,
		s.Elicitation, s.Roots)
}

// MCPServers are the declared servers by name.
func (s *Snapshot) MCPServers() []MCPServer {
	if s == nil {
		return nil
	}
	out := make([]MCPServer, 0, len(s.servers))
	for _, one := range s.servers {
		out = append(out, *one)
	}
	slices.SortFunc(out, func(a, b MCPServer) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// MCPServersAt are the declared servers that are reached at a destination.
func (s *Snapshot) MCPServersAt(a authority.Authority) []*MCPServer {
	if s == nil || len(s.servers) == 0 {
		return nil
	}
	var out []*MCPServer
	for _, one := range s.servers {
		if one.Authority == a {
			out = append(out, one)
		}
	}
	return out
}

// hints are the words that would allow a call.
func (s *MCPServer) hints(c *MCPCall) []string {
	which := "name: " + s.Name
	if s.URL != "" {
		which = "url: " + strconv.Quote(s.URL)
	}
	key := map[Feature]string{
		Tool: "allow_tools: [" + strconv.Quote(c.Name) + "]", Prompt: "prompts: [" + strconv.Quote(c.Name) + "]",
		Resource: "resources: [" + strconv.Quote(c.Name) + "]",
		Sampling: "sampling: ask", Elicitation: "elicitation: ask", Roots: "roots: allow",
	}[c.Feature]
	return []string{"in config.yaml: mcp: {servers: [{" + which + ", " + key + "}]}"}
}

// judge is what the lists say; rule is empty where none names it.
func (s *MCPServer) judge(c *MCPCall) (effect Effect, rule string) {
	switch c.Feature {
	case Tool:
		for _, list := range []struct {
			effect Effect
			key    string
			globs  []string
		}{{Deny, "deny_tools", s.DenyTools}, {Ask, "ask_tools", s.AskTools}, {Allow, "allow_tools", s.AllowTools}} {
			for _, g := range list.globs {
				// A server may take two spellings for one tool: what takes away holds for
				// each that looks alike, what gives for none but its own.
				if urlpath.Wild(g, c.Name) || list.effect != Allow && urlpath.Wild(skeleton(g), skeleton(c.Name)) {
					return list.effect, fmt.Sprintf("%s %s of %s", list.key, g, s.Name)
				}
			}
		}
	case Prompt, Resource:
		key, globs := "prompts", s.Prompts
		if c.Feature == Resource {
			key, globs = "resources", s.Resources
		}
		for _, g := range globs {
			if urlpath.Wild(g, c.Name) {
				return Allow, fmt.Sprintf("%s %s of %s", key, g, s.Name)
			}
		}
	case Sampling:
		return stated(s.Sampling, "sampling", s.Name)
	case Elicitation:
		return stated(s.Elicitation, "elicitation", s.Name)
	case Roots:
		return stated(s.Roots, "roots", s.Name)
	}
	return Deny, ""
}

// oddName is why a name cannot be judged: two readers could take it for two.
func oddName(c *MCPCall) string {
	switch c.Feature {
	case Tool, Prompt:
		if c.Name == "" || len(c.Name) > 256 {
			return "a name of 1 to 256 characters is wanted"
		}
		for _, r := range c.Name {
			if r <= ' ' || r > '~' {
				return fmt.Sprintf("the name has the character %U, which may look like another", r)
			}
		}
	case Resource:
		return oddURI(c.Name)
	case Sampling, Elicitation, Roots:
	default:
		return "unknown " + c.Feature.String()
	}
	return ""
}

// oddURI is why a resource's URI has no one meaning.
func oddURI(uri string) string {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Scheme == "":
		return "the URI cannot be read"
	case strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }):
		return "the URI has characters that belong in no URI"
	case strings.Contains(strings.ToLower(uri), "%2f"), strings.Contains(strings.ToLower(uri), "%5c"),
		strings.Contains(strings.ToLower(uri), "%00"):
		return "the URI hides a slash or a NUL behind percent signs"
	}
	path := u.Path
	if u.Opaque != "" {
		path = u.Opaque
	}
	if slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == ".." || part == "." }) {
		return "the URI leads up by .. or ."
	}
	return ""
}

// skeleton is a name by its looks.
func skeleton(name string) string {
	return strings.Map(func(r rune) rune {
		switch r = unicode.ToLower(r); r {
		case '0':
			return 'o'
		case '1', 'i', '|':
			return 'l'
		case '5':
			return 's'
		case '-', '.', ' ', '/':
			return '_'
		}
		return r
	}, name)
}

// LookAlike reports whether two names could be taken for one another.
func LookAlike(a, b string) bool { return a != b && skeleton(a) == skeleton(b) }

func serverUID(name string) types.EntityUID {
	return types.NewEntityUID("MCP::Server", types.String(name))
}

// uids are the entities that stand for a server: by its name, host and URL.
func (s *MCPServer) uids() []types.EntityUID {
	out := []types.EntityUID{serverUID(s.Name)}
	if s.Authority.IsValid() {
		out = append(out, serverUID(s.Authority.Host()), serverUID(s.Authority.String()))
	}
	if s.URL != "" {
		out = append(out, serverUID(s.URL))
	}
	return out
}

// lookAlikeKey is a key, at any depth, that is one of the names but for case.
func lookAlikeKey(v any, names []string) string {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			for _, n := range names {
				if key != n && strings.EqualFold(key, n) {
					return key
				}
			}
			if odd := lookAlikeKey(inner, names); odd != "" {
				return odd
			}
		}
	case []any:
		for _, inner := range v {
			if odd := lookAlikeKey(inner, names); odd != "" {
				return odd
			}
		}
	}
	return ""
}

func stated(e Effect, key, server string) (Effect, string) {
	if e == Deny {
		return Deny, "" // also where the configuration has no word for it
	}
	return e, key + " " + e.String() + " of " + server
}
