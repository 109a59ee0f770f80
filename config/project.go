package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/internal/authority"
)

// ProjectFile is the name of a repository's own proposal.
const ProjectFile = ".cloister.yaml"

// Project is what one project adds to the configuration: of the person in
// projects/NAME.yaml, or a proposal in the repository. It has none of the keys
// that are the whole machine's.
type Project struct {
	Version int    `json:"version" jsonschema:"Version of this file's format. Only 1 exists."`
	Root    string `json:"root" jsonschema:"The host path of the project; in projects/NAME.yaml only."`
	Proxy   struct {
		Allow []Rule `json:"allow"`
		Ask   []Rule `json:"ask"`
		Deny  []Rule `json:"deny"`
	} `json:"proxy"`
	// Secrets, Logins and MCP are as in config.yaml, for sessions of this project only.
	Secrets    []Secret   `json:"secrets"`
	Logins     []string   `json:"logins"`
	MCP        MCP        `json:"mcp"`
	Filesystem Filesystem `json:"filesystem"`
}

// ParseProject reads one project's file.
func ParseProject(name string, text []byte) (*Project, error) {
	p := &Project{Version: 1}
	r := newReader(name)
	r.decode(text, p)
	if p.Version != 1 {
		r.problem(r.places["version"], "write version: 1", "version: this cloister reads version 1, not %d", p.Version)
	}
	r.rules(p.Proxy.Allow, "proxy.allow", authority.ParsePattern)
	r.rules(p.Proxy.Ask, "proxy.ask", authority.ParsePattern)
	r.rules(p.Proxy.Deny, "proxy.deny", authority.ParseBroadPattern)
	for i, rule := range p.Proxy.Allow {
		if rule.Identity != "" {
			r.problem(r.places[at("proxy.allow", i)+".identity"], "write the rule in config.yaml", "proxy.allow[%d]: a project does not say which of your keys logs in", i)
		}
	}
	r.secrets(p.Secrets)
	r.logins(p.Logins)
	r.servers(p.MCP.Servers)
	if filepath.Base(name) == ProjectFile {
		r.noCommands(p.MCP.Servers)
	}
	r.exposed(p.Filesystem.Expose)
	r.hostPaths(p.Filesystem.Refs, "filesystem.refs")
	r.projectPaths(p.Filesystem.Protect, "filesystem.protect")
	r.projectPaths(p.Filesystem.Hide, "filesystem.hide")
	return p, r.err()
}

// noCommands refuses programs of the host in a repository's own file: whoever can
// push to it would choose what runs outside every cloister.
func (r *reader) noCommands(list []MCPServer) {
	for i, s := range list {
		if len(s.Command) > 0 {
			r.problem(r.places[at("mcp.servers", i)+".command"], "declare it in config.yaml, or in projects/NAME.yaml: cloister project edit", "%s: a repository does not say what runs on the host", at("mcp.servers", i))
		}
	}
}

// LoadProject reads a project's file and gives its text too; nil where there is
// none. One that is a symbolic link is refused: it could be led elsewhere after
// it was looked at.
func LoadProject(name string) (*Project, []byte, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, nil, &Error{File: name, Msg: "a symbolic link", Hint: "put the file itself there"}
	}
	text, err := readFile(name)
	if err != nil {
		return nil, nil, err
	}
	p, err := ParseProject(name, text)
	return p, text, err
}

// Widens tells whether a proposal asks for more than the person gave.
func (p *Project) Widens() bool {
	return len(p.Proxy.Allow)+len(p.Proxy.Ask)+len(p.Filesystem.Expose)+len(p.Filesystem.Refs)+len(p.Secrets)+len(p.Logins)+len(p.MCP.Servers) > 0
}

// Narrowed is the part of a proposal that takes away: it applies at once.
func (p *Project) Narrowed() *Project {
	n := *p
	n.Proxy.Allow, n.Proxy.Ask, n.Filesystem.Expose, n.Filesystem.Refs = nil, nil, nil, nil
	n.Secrets, n.Logins, n.MCP.Servers = nil, nil, nil
	return &n
}

// Digest names a proposal's text.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
