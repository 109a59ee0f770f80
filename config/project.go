package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"cloister/internal/source"
)

// ProjectFile is the name of a repository's own proposal.
const ProjectFile = ".cloister.yaml"

// Project is what one project adds to the configuration: of the person in
// projects/NAME.yaml, or a proposal in the repository. It has none of the keys
// that are the whole machine's: where names are dialled and what signs them, how
// long a person is asked.
type Project struct {
	// Version of this file's format. Only 1 exists.
	Version int `json:"version"`
	// The host path of the project; in projects/NAME.yaml only.
	Root       string       `json:"root"`
	Defaults   Defaults     `json:"defaults"`
	Image      string       `json:"image"`
	Proxy      ProjectProxy `json:"proxy"`
	Hostexec   Hostexec     `json:"hostexec"`
	Filesystem Filesystem   `json:"filesystem"`
	// Secrets, Logins and MCP are as in config.yaml, for sessions of this project only.
	Secrets   []Secret         `json:"secrets"`
	Logins    []string         `json:"logins"`
	MCP       MCP              `json:"mcp"`
	Resources Resources        `json:"resources"`
	Agents    map[string]Agent `json:"agents"`
}

// ProjectProxy is Proxy without the keys that are the whole machine's.
type ProjectProxy struct {
	Unlisted        Unlisted    `json:"unlisted_domain_behavior"`
	Presets         []string    `json:"presets"`
	Allow           []Rule      `json:"allow"`
	Ask             []Rule      `json:"ask"`
	Deny            []Rule      `json:"deny"`
	Rewrite         []Rewrite   `json:"rewrite"`
	RateLimit       RateLimit   `json:"rate_limit"`
	MaxRequestBytes Size        `json:"max_request_bytes"`
	UploadLimit     UploadLimit `json:"upload_limit"`
}

// ParseProject reads one project's file.
func ParseProject(name string, text []byte) (*Project, error) {
	p := &Project{Version: 1}
	r := newReader(name)
	r.decode(text, p)
	c := p.alone()
	r.joined = true
	r.check(c)
	p.Proxy.Unlisted = c.Proxy.Unlisted
	for i, rule := range p.Proxy.Allow {
		if rule.Identity != "" {
			r.problem(r.places[at("proxy.allow", i)+".identity"], "write the rule in config.yaml",
				"proxy.allow[%d]: a project does not say which of your keys logs in", i)
		}
	}
	if filepath.Base(name) == ProjectFile {
		r.noCommands(p.MCP.Servers)
	}
	return p, r.err()
}

// noCommands refuses programs of the host in a repository's own file: whoever can
// push to it would choose what runs outside every cloister.
func (r *reader) noCommands(list []MCPServer) {
	for i, s := range list {
		if len(s.Command) > 0 {
			r.problem(r.places[at("mcp.servers", i)+".command"],
				"declare it in config.yaml, or in projects/NAME.yaml: cloister project edit",
				"%s: a repository does not say what runs on the host", at("mcp.servers", i))
		}
	}
}

// alone is a configuration that says what the project says, and nothing else.
func (p *Project) alone() *Config {
	x := p.Proxy
	return &Config{
		Version: p.Version, Defaults: p.Defaults, Image: p.Image, Hostexec: p.Hostexec, Filesystem: p.Filesystem,
		Resources: p.Resources, Agents: p.Agents,
		Secrets: p.Secrets, Logins: p.Logins, MCP: p.MCP,
		Proxy: Proxy{
			Unlisted: x.Unlisted, Presets: x.Presets, Allow: x.Allow, Ask: x.Ask, Deny: x.Deny, Rewrite: x.Rewrite,
			RateLimit: x.RateLimit, MaxRequestBytes: x.MaxRequestBytes, UploadLimit: x.UploadLimit,
		},
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
		return nil, nil, &source.Problem{Position: source.Position{File: name}, Msg: "a symbolic link",
			Hint: "put the file itself there"}
	}
	text, err := readWith(name, syscall.O_NOFOLLOW) // it may be one by now
	if err != nil {
		return nil, nil, err
	}
	p, err := ParseProject(name, text)
	return p, text, err
}

// Widens reports whether a proposal asks for more than c, which the person gave.
func (p *Project) Widens(c *Config) bool {
	asks := len(p.Proxy.Allow) + len(p.Proxy.Ask) + len(p.Proxy.Presets) + len(p.Proxy.Rewrite) +
		len(p.Hostexec.AutoApprove) + len(p.Hostexec.ManualApprove) + len(p.Hostexec.Shims) +
		len(p.Filesystem.Expose) + len(p.Filesystem.Refs) + len(p.Agents) + len(p.Secrets) + len(p.Logins) +
		len(p.MCP.Servers) +
		len(p.Filesystem.Hide) - len(held(p.Filesystem.Hide)) + len(p.Filesystem.Protect) - len(held(p.Filesystem.Protect))
	if asks > 0 || p.Defaults != (Defaults{}) || p.Image != "" ||
		p.Proxy.Unlisted == UnlistedAsk && c.Proxy.Unlisted == UnlistedDeny {
		return true
	}
	wide := false
	now := *c
	for _, b := range p.bounds(&now) {
		wide = wide || b.asks > 0 && b.has() > 0 && b.asks > b.has()
	}
	return wide
}

// Narrowed is the part of a proposal that takes away: it applies at once.
func (p *Project) Narrowed() *Project {
	n := *p
	n.Defaults, n.Image, n.Agents = Defaults{}, "", nil
	n.Proxy.Allow, n.Proxy.Ask, n.Proxy.Presets, n.Proxy.Rewrite = nil, nil, nil, nil
	if n.Proxy.Unlisted == UnlistedAsk {
		n.Proxy.Unlisted = ""
	}
	n.Hostexec.AutoApprove, n.Hostexec.ManualApprove, n.Hostexec.Shims = nil, nil, nil
	n.Filesystem.Expose, n.Filesystem.Refs = nil, nil
	n.Filesystem.Hide, n.Filesystem.Protect = held(n.Filesystem.Hide), held(n.Filesystem.Protect)
	n.Secrets, n.Logins, n.MCP.Servers = nil, nil, nil
	return &n
}

// held are the patterns of a list but for those that take back what others name.
func held(patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return strings.HasPrefix(p, "!") })
}

// Over is c with what the project says over it: words take the place of words,
// lists grow. narrowed says that no one agreed to more than it takes away: then
// bounds only fall. The lists of destinations are not in it, since rules keep the
// name of their file (Proxy.Allow, Ask, Deny, Rewrite and Presets are c's).
func (p *Project) Over(c *Config, narrowed bool) *Config {
	out := *c
	if narrowed {
		p = p.Narrowed()
	}
	for _, w := range []struct{ to, from *string }{
		{(*string)(&out.Defaults.Isolation), (*string)(&p.Defaults.Isolation)},
		{&out.Defaults.Agent, &p.Defaults.Agent},
		{(*string)(&out.Defaults.Mode), (*string)(&p.Defaults.Mode)},
		{(*string)(&out.Defaults.Workspace), (*string)(&p.Defaults.Workspace)},
		{&out.Defaults.Devcontainer, &p.Defaults.Devcontainer},
		{&out.Image, &p.Image},
		{(*string)(&out.Proxy.Unlisted), (*string)(&p.Proxy.Unlisted)},
	} {
		if *w.from != "" {
			*w.to = *w.from
		}
	}
	for _, b := range p.bounds(&out) {
		if b.asks > 0 && (!narrowed || b.has() == 0 || b.asks < b.has()) {
			b.set(b.asks)
		}
	}
	h, f := &out.Hostexec, &out.Filesystem
	h.AutoApprove, h.ManualApprove = slices.Concat(h.AutoApprove, p.Hostexec.AutoApprove),
		slices.Concat(h.ManualApprove, p.Hostexec.ManualApprove)
	h.Deny, h.Shims = slices.Concat(h.Deny, p.Hostexec.Deny), slices.Concat(h.Shims, p.Hostexec.Shims)
	f.Expose, f.Refs = slices.Concat(f.Expose, p.Filesystem.Expose), slices.Concat(f.Refs, p.Filesystem.Refs)
	f.Protect, f.Hide = slices.Concat(f.Protect, p.Filesystem.Protect), slices.Concat(f.Hide, p.Filesystem.Hide)
	if len(p.Agents) > 0 {
		out.Agents = maps.Clone(out.Agents)
		if out.Agents == nil {
			out.Agents = map[string]Agent{}
		}
	}
	for name, own := range p.Agents {
		a := out.Agents[name]
		env := maps.Clone(own.Env)
		for key, value := range a.Env {
			if _, said := env[key]; !said {
				if env == nil {
					env = map[string]string{}
				}
				env[key] = value
			}
		}
		out.Agents[name] = Agent{Args: slices.Concat(a.Args, own.Args), Env: env}
	}
	return &out
}

// A bound is one limit of a configuration that a project may set. Zero is none.
type bound struct {
	asks float64
	has  func() float64
	set  func(float64)
}

func (p *Project) bounds(c *Config) []bound {
	return []bound{
		numeric(p.Resources.Memory, &c.Resources.Memory), numeric(p.Resources.CPUs, &c.Resources.CPUs),
		numeric(p.Resources.PIDs, &c.Resources.PIDs),
		numeric(p.Proxy.RateLimit.RequestsPerMinute, &c.Proxy.RateLimit.RequestsPerMinute),
		numeric(p.Proxy.RateLimit.ConcurrentRequests, &c.Proxy.RateLimit.ConcurrentRequests),
		numeric(p.Proxy.RateLimit.NamesPerMinute, &c.Proxy.RateLimit.NamesPerMinute),
		numeric(p.Proxy.MaxRequestBytes, &c.Proxy.MaxRequestBytes),
		numeric(p.Proxy.UploadLimit.Session, &c.Proxy.UploadLimit.Session),
		numeric(p.Proxy.UploadLimit.Host, &c.Proxy.UploadLimit.Host),
	}
}

func numeric[T ~int | ~int64 | ~float64](asks T, to *T) bound {
	return bound{float64(asks), func() float64 { return float64(*to) }, func(v float64) { *to = T(v) }}
}

// ForGuardian reports whether it says anything that the guardian keeps, rather than
// whoever builds the cloister.
func (p *Project) ForGuardian() bool {
	x, h := p.Proxy, p.Hostexec
	return x.Unlisted != "" || x.RateLimit != (RateLimit{}) || x.MaxRequestBytes != 0 ||
		x.UploadLimit != (UploadLimit{}) ||
		len(x.Presets)+len(x.Allow)+len(x.Ask)+len(x.Deny)+len(x.Rewrite)+len(h.AutoApprove)+len(h.ManualApprove)+len(h.Deny)+
			len(p.Secrets)+len(p.Logins)+len(p.MCP.Servers) > 0
}

// Digest names a proposal's text.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
