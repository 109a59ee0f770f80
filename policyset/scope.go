package policyset

import (
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/egress"
	"cloister/hostexec/hostrules"
	"cloister/internal/source"
	"cloister/secret"
)

// A Scope is what one session may have of secrets and of MCP servers, of host
// commands and limits: the person's, then those of its project's files. It never changes.
type Scope struct {
	Secrets  []config.Secret
	Bindings []*secret.Binding
	Servers  []config.MCPServer
	shared   int // how many of the servers are config.yaml's, first
	Logins   []*config.LoginService
	Quota    egress.Quota
	Host     *hostrules.Set
}

// Scope is that of a session with these files of its project.
func (l *Set) Scope(files []api.ProjectFile) (*Scope, error) {
	quota, host, err := l.grants(files)
	if err != nil {
		return nil, err
	}
	all := &Scope{Quota: quota, Host: host, Secrets: l.config.Secrets, Bindings: l.bindings, Servers: l.config.MCP.Servers,
		shared: len(l.config.MCP.Servers)}
	allow := l.config.Proxy.Allow
	var own []config.Secret
	logins := l.config.Logins
	for _, f := range files {
		// A start pays for the second reading only where it may matter.
		if f.Narrowed || !strings.Contains(f.Text, "secrets") && !strings.Contains(f.Text, "logins") &&
			!strings.Contains(f.Text, "mcp") {
			continue
		}
		p, err := config.ParseProject(f.Name, []byte(f.Text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		allow = slices.Concat(allow, p.Proxy.Allow)
		own = append(own, p.Secrets...)
		logins = append(slices.Clip(logins), p.Logins...)
		for _, s := range p.MCP.Servers {
			if err := clash(all.Servers, s); err != nil {
				return nil, err
			}
			all.Servers = append(slices.Clip(all.Servers), s)
		}
	}
	if len(own)+len(logins) == 0 {
		return all, nil
	}
	logins = slices.Sorted(slices.Values(logins))
	more, list, err := loginSecrets(slices.Compact(logins), slices.Concat(all.Secrets, own))
	if err != nil {
		return nil, err
	}
	own, all.Logins = append(own, more...), list
	for _, s := range own {
		if err := config.SameVariable(all.Secrets, s); err != nil {
			return nil, err
		}
		all.Secrets = append(slices.Clip(all.Secrets), s)
	}
	all.Bindings, err = bindings(all.Secrets, allow)
	return all, err
}

// Secrets are the bindings of every session: the person's, and those of logins.
func (l *Set) Secrets() []config.Secret {
	all, err := l.Scope(nil)
	if err != nil {
		return l.config.Secrets // no session starts, and the caller gets the reason
	}
	return all.Secrets
}

// clash is the error of two servers of one name, or at one place.
func clash(list []config.MCPServer, s config.MCPServer) error {
	to, path, err := s.Address()
	if err != nil {
		return fmt.Errorf("mcp.servers: %w", err)
	}
	for _, o := range list {
		at, otherPath, err := o.Address()
		what := ""
		switch {
		case o.Name == s.Name:
			what = "is called " + s.Name + " too"
		case err == nil && at == to && otherPath == path:
			what = "has this url too"
		default:
			continue
		}
		return &source.Problem{
			Position: s.Place, Hint: "give it another name, or take away one of the two",
			Msg: fmt.Sprintf("mcp.servers: the server at %s:%d %s", o.Place.File, o.Place.Line, what),
		}
	}
	return nil
}

// Pinned is the name under which a server's tools are pinned: two projects may
// call two servers alike.
func (s *Scope) Pinned(name, project string) string {
	if slices.ContainsFunc(s.Servers[s.shared:], func(o config.MCPServer) bool { return o.Name == name }) {
		return name + " of " + project
	}
	return name
}

// Arguments says what the record has of a call's arguments.
func (s *Scope) Arguments(name string) config.MCPRecord {
	for _, o := range s.Servers {
		if o.Name == name {
			return o.Arguments
		}
	}
	return ""
}

// Login is the one that a secret is of; nil for none.
func (s *Scope) Login(name string) *config.LoginService {
	for _, l := range s.Logins {
		if slices.ContainsFunc(l.Secrets, func(o config.Secret) bool { return o.Name == name }) {
			return l
		}
	}
	return nil
}

// Missing says that a secret is bound and not in the vault.
func (s *Scope) Missing(b config.Secret) string {
	if l := s.Login(b.Name); l != nil {
		return fmt.Sprintf("nobody has logged in to %s: cloister secret login %s", l.Title, l.Name)
	}
	return fmt.Sprintf("the secret %s is bound (%s:%d) and not in the vault: cloister secret set %s", b.Name, b.Place.File,
		b.Place.Line, b.Name)
}
