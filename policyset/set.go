// Package policyset compiles the configuration on disk to the policy of sessions: presets,
// rules, Cedar files, remembered answers, a project's files and a session's own rules.
//
// Promise: what does not load in whole does not load; every rule keeps its place;
// a Set never changes.
//
// It judges nothing, enforces nothing and needs no guardian: the CLI loads the same set
// from the same files.
//
// Most readers want Load and Holder.
package policyset

import (
	"crypto/x509"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cloister/api"
	"cloister/config"
	"cloister/host/resolve"
	"cloister/hostexec/hostrules"
	"cloister/internal/authority"
	"cloister/internal/reading"
	"cloister/internal/source"
	"cloister/policy"
	"cloister/sandbox/judge"
	"cloister/secret"
)

// cached bounds the snapshots of sessions with words of their own.
const cached = 64

// A Set is one configuration on disk, compiled.
type Set struct {
	base    *policy.Snapshot
	input   policy.Input
	config  *config.Config
	host    *hostrules.Set
	answers []config.Decisions
	notices []string
	// bindings say where secrets may go.
	bindings []*secret.Binding
	// roots are what servers must be signed by; nil is the host's authorities.
	roots *x509.CertPool
}

// Snapshot is the policy without any session's own words.
func (l *Set) Snapshot() *policy.Snapshot { return l.base }

// Input is what the snapshot is compiled from, for every project.
func (l *Set) Input() policy.Input {
	in := l.input
	in.Rules = append(slices.Clone(in.Rules), l.remembered("")...)
	return in
}

// InputIn is Input with what a project's files say and, where it is named, what a person
// answered for it.
func (l *Set) InputIn(project string, files []api.ProjectFile) (policy.Input, error) {
	in := l.Input()
	if project != "" {
		in.Rules = append(in.Rules, l.remembered(project)...)
	}
	if err := addProjects(&in, files); err != nil {
		return in, err
	}
	scope, err := l.Scope(files)
	if err != nil {
		return in, err
	}
	in.Servers = slices.Clip(in.Servers)
	return in, addServers(&in, scope.Servers[scope.shared:])
}

// Config is the configuration that it came from.
func (l *Set) Config() *config.Config { return l.config }

// Answers are what a person answered and had remembered.
func (l *Set) Answers() []config.Decisions { return l.answers }

// Roots are what servers must be signed by; nil is the host's authorities.
func (l *Set) Roots() *x509.CertPool { return l.roots }

// Notices tell what it says that nothing enforces, and what is enforced but
// may not be meant.
func (l *Set) Notices() []string { return slices.Clone(l.notices) }

// Load reads and compiles the configuration in dir, as the guardian does at
// its start and for a reload; home is what ~ stands for in it.
func Load(dir, home string, host resolve.Now) (*Set, error) { return LoadWith(dir, home, host, nil) }

// LoadWith is Load with other texts in place of files.
func LoadWith(dir, home string, now resolve.Now, instead map[string][]byte) (*Set, error) {
	c, sources, err := config.LoadWith(dir, instead)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	in, err := input(c, sources)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	answers, err := config.LoadDecisions(dir)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	host, err := hostRules(c.Hostexec)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	secrets, err := bindings(c.Secrets, c.Proxy.Allow)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	roots, err := upstreamRoots(c, home, now)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	return (&Set{input: in, config: c, host: host, roots: roots, bindings: secrets}).Answered(answers)
}

// Answered is the same configuration with other remembered answers.
func (l *Set) Answered(answers []config.Decisions) (*Set, error) {
	next := &Set{input: l.input, config: l.config, host: l.host, roots: l.roots, bindings: l.bindings, answers: answers}
	var err error
	if next.base, err = policy.Compile(next.Input()); err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	next.notices = append(Remarks(next.base), shared(next.Input().Rules)...)
	return next, nil
}

// shared tells of wildcards that allow names of many people.
func shared(rules []policy.Rule) []string {
	var out []string
	for _, r := range rules {
		p, err := authority.ParseBroadPattern(r.Domain)
		if err == nil && r.Effect == policy.Allow && p.Shared() && p.Base() != "" {
			out = append(out, fmt.Sprintf("%s: %s allows names of many people: anybody can have one below %s; write the names "+
				"that are meant",
				r.Origin, p, p.Base()))
		}
	}
	return out
}

// remembered are the answers for one project or, with "", those for all.
func (l *Set) remembered(project string) []policy.Rule {
	var out []policy.Rule
	for _, f := range l.answers {
		if f.Project == project {
			out = append(out, answerRules(f.Decisions)...)
		}
	}
	return out
}

func answerRules(list []config.Decision) []policy.Rule {
	var out []policy.Rule
	for _, d := range list {
		rule := policy.Rule{Effect: policy.Deny, Answer: true,
			Origin: source.Position{Source: "approval " + d.ID, File: d.Place.File, Line: d.Place.Line}}
		if d.Answer == config.AnsweredAllow {
			rule.Effect = policy.Allow
		}
		switch d.Kind {
		case config.DecisionNetwork:
			host, port, err := config.SplitSubject(d.Subject)
			if err != nil {
				continue // it was checked when it was read
			}
			rule.Domain, rule.Ports = host, []uint16{port}
		case config.DecisionMCP:
			rule.Tool = d.Subject
		default:
			continue
		}
		out = append(out, rule)
	}
	return out
}

// Remarks are what a person should know of a snapshot that loads.
func Remarks(s *policy.Snapshot) []string {
	var out []string
	available := sync.OnceValue(judge.Available)
	for _, st := range s.Statements() {
		hold := st.Hold
		if hold == policy.InKernel && available() != nil {
			hold = policy.Unkept
		}
		switch hold {
		case policy.Unkept:
			out = append(out, fmt.Sprintf("%s: not enforced: %s of %s: %s", st.Origin, verbOf(st.Effect),
				strings.Join(st.Actions, ", "), st.Why))
		case policy.InPart:
			out = append(out, fmt.Sprintf("%s: enforced in part: %s of %s: %s", st.Origin, verbOf(st.Effect),
				strings.Join(st.Actions, ", "), st.Why))
		case policy.InKernel, policy.InList, policy.InView, policy.Kept:
		}
	}
	for _, n := range s.Warnings() {
		out = append(out, fmt.Sprintf("%s: %s", n.Origin, n.Msg))
	}
	return out
}

// input gathers the rules of presets and configuration, each with its place.
func input(c *config.Config, sources config.Sources) (policy.Input, error) {
	var in policy.Input
	var err error
	if in.Mode, err = policy.ParseMode(string(c.Defaults.Mode)); err != nil {
		return in, err
	}
	if in.Unlisted, err = policy.ParseEffect(string(c.Proxy.Unlisted)); err != nil {
		return in, err
	}
	if err := addPresets(&in, c.Proxy.Presets); err != nil {
		return in, err
	}
	in.Rules = append(in.Rules, rules(policy.Allow, "config.yaml", c.Proxy.Allow)...)
	in.Rules = append(in.Rules, rules(policy.Ask, "config.yaml", c.Proxy.Ask)...)
	in.Rules = append(in.Rules, rules(policy.Deny, "config.yaml", c.Proxy.Deny)...)
	addRewrites(&in, "config.yaml", c.Proxy.Rewrite)
	if err := addServers(&in, c.MCP.Servers); err != nil {
		return in, err
	}
	in.Cedar = append(in.Cedar, CedarFiles(sources)...)
	return in, nil
}

// addPresets adds built-in lists of allowed destinations.
func addPresets(in *policy.Input, names []string) error {
	for _, name := range names {
		p, err := config.LoadPreset(name)
		if err != nil {
			return err
		}
		list := rules(policy.Allow, presetSource+name, p.Allow)
		for i := range list {
			// A tenant is a person's word: it takes the place of what a preset
			// says of the same host.
			list[i].Preset = p.Form == ""
		}
		in.Rules = slices.Concat(in.Rules, list)
	}
	return nil
}

func addRewrites(in *policy.Input, source string, list []config.Rewrite) {
	in.Rewrites = slices.Clip(in.Rewrites) // a session's own words are not the next one's
	for _, w := range list {
		rule := rules(policy.Allow, source, []config.Rule{w.Rule()})
		in.Rewrites = append(in.Rewrites, policy.RewriteRule{Rule: rule[0], Set: w.Set, Remove: w.Remove})
	}
}

// presetSource begins the source of a rule that we wrote.
const presetSource = "preset "

func rules(effect policy.Effect, source string, list []config.Rule) []policy.Rule {
	out := make([]policy.Rule, 0, len(list))
	for _, r := range list {
		out = append(out, policy.Rule{
			Effect:  effect,
			Domain:  r.Domain,
			CIDR:    r.CIDR,
			Ports:   r.Ports,
			Methods: r.Methods, Paths: r.Paths, Headers: r.Headers, Query: r.Query, Bytes: int64(r.Bytes),
			Objects:  reading.StoreKind(r.Objects),
			Tunnel:   r.TLS == config.TLSTunnel,
			Inspect:  r.TLS == config.TLSInspect,
			Protocol: string(r.Protocol), Users: r.Users, Databases: r.Databases,
			Repositories: r.Repositories, Git: r.Git, Commands: r.Commands, Identity: r.Identity, Use: string(r.Use),
			HostKeys: r.HostKeys,
			Preset:   strings.HasPrefix(source, presetSource),
			Origin:   r.Place.From(source),
		})
	}
	return out
}

// In is the policy that a session of a project would have, without words of its
// own.
func (l *Set) In(project string, files []api.ProjectFile) (*policy.Snapshot, error) {
	return derive(l, SessionRules{Projects: files}, l.remembered(project))
}

// addProjects adds what a project's files say of destinations, each rule with its
// place.
func addProjects(in *policy.Input, files []api.ProjectFile) error {
	for _, f := range files {
		p, err := config.ParseProject(f.Name, []byte(f.Text))
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		if f.Narrowed {
			p = p.Narrowed()
		}
		if p.Proxy.Unlisted != "" {
			if in.Unlisted, err = policy.ParseEffect(string(p.Proxy.Unlisted)); err != nil {
				return fmt.Errorf("read %s: %w", f.Name, err)
			}
		}
		if err := addPresets(in, p.Proxy.Presets); err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
		source := filepath.Base(f.Name)
		in.Rules = slices.Concat(in.Rules, rules(policy.Allow, source, p.Proxy.Allow), rules(policy.Ask, source, p.Proxy.Ask),
			rules(policy.Deny, source, p.Proxy.Deny))
		addRewrites(in, source, p.Proxy.Rewrite)
	}
	return nil
}

// ofProject is a configuration with what a project's files say over it.
func ofProject(c *config.Config, files []api.ProjectFile) (*config.Config, error) {
	for _, f := range files {
		p, err := config.ParseProject(f.Name, []byte(f.Text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		c = p.Over(c, f.Narrowed)
	}
	return c, nil
}

// Problems takes an error of Load apart, one for each place in a file. What
// has no place keeps the words of the whole error.
func Problems(err error) []api.Problem {
	switch e := err.(type) { //nolint:errorlint // the tree is walked, not searched
	case *source.Problem:
		return []api.Problem{{File: e.File, Line: e.Line, Column: e.Column, Message: e.Msg, Hint: e.Hint}}
	case interface{ Unwrap() []error }:
		var all []api.Problem
		for _, one := range e.Unwrap() {
			all = append(all, Problems(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		if e.Unwrap() == nil {
			break // net's errors may wrap none
		}
		inner := Problems(e.Unwrap())
		if slices.ContainsFunc(inner, func(p api.Problem) bool { return p.File != "" }) {
			return inner
		}
	}
	return []api.Problem{{Message: err.Error()}}
}

// CedarFiles are the Cedar files of a configuration, as the judge takes them.
func CedarFiles(sources config.Sources) []policy.CedarFile {
	var files []policy.CedarFile
	for _, c := range sources.Cedar {
		files = append(files, policy.CedarFile{Name: c.Name, Text: c.Text})
	}
	return files
}
