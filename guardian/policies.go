package guardian

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cloister/api"
	"cloister/config"
	"cloister/hostexec"
	"cloister/policy"
	"cloister/secret"
)

// cached bounds the snapshots of sessions with words of their own.
const cached = 64

// Loaded is one configuration on disk, compiled.
type Loaded struct {
	base    *policy.Snapshot
	input   policy.Input
	config  *config.Config
	host    *hostexec.Rules
	answers []config.Decisions
	notices []string
	// bindings say where secrets may go.
	bindings []*secret.Binding
	// roots are what servers must be signed by; nil is the host's authorities.
	roots *x509.CertPool
}

// Snapshot is the policy without any session's own words.
func (l *Loaded) Snapshot() *policy.Snapshot { return l.base }

// Input is what the snapshot is compiled from, for every project.
func (l *Loaded) Input() policy.Input {
	in := l.input
	in.Rules = append(slices.Clone(in.Rules), l.remembered("")...)
	return in
}

// InputIn is Input with what a project's files say and, where it is named, what a person
// answered for it.
func (l *Loaded) InputIn(project string, files []api.ProjectFile) (policy.Input, error) {
	in := l.Input()
	if project != "" {
		in.Rules = append(in.Rules, l.remembered(project)...)
	}
	if err := addProjects(&in, files); err != nil {
		return in, err
	}
	scope, err := l.scope(files)
	if err != nil {
		return in, err
	}
	in.Servers = slices.Clip(in.Servers)
	return in, addServers(&in, scope.servers[scope.shared:])
}

// Config is the configuration that it came from.
func (l *Loaded) Config() *config.Config { return l.config }

// Notices tell what it says that nothing enforces, and what is enforced but
// may not be meant.
func (l *Loaded) Notices() []string { return slices.Clone(l.notices) }

// Load reads and compiles the configuration in dir, as the guardian does at
// its start and for a reload; home is what ~ stands for in it.
func Load(dir, home string) (*Loaded, error) { return loadWith(dir, home, nil) }

// loadWith is Load with other texts in place of files.
func loadWith(dir, home string, instead map[string][]byte) (*Loaded, error) {
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
	roots, err := upstreamRoots(c, home)
	if err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	return (&Loaded{input: in, config: c, host: host, roots: roots, bindings: secrets}).answered(answers)
}

// answered is the same configuration with other remembered answers.
func (l *Loaded) answered(answers []config.Decisions) (*Loaded, error) {
	next := &Loaded{input: l.input, config: l.config, host: l.host, roots: l.roots, bindings: l.bindings, answers: answers}
	var err error
	if next.base, err = policy.Compile(next.Input()); err != nil {
		return nil, fmt.Errorf("load policy: %w", err)
	}
	next.notices = remarks(next.base)
	return next, nil
}

// remembered are the answers for one project or, with "", those for all.
func (l *Loaded) remembered(project string) []policy.Rule {
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
		rule := policy.Rule{Effect: policy.Deny, Answer: true, Origin: policy.Origin{Source: "approval " + d.ID, File: d.Place.File, Line: d.Place.Line}}
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

// remarks are what a person should know of a snapshot that loads.
func remarks(s *policy.Snapshot) []string {
	var out []string
	for _, st := range s.Statements() {
		switch st.Hold {
		case policy.Unkept:
			out = append(out, fmt.Sprintf("%s: not enforced: %s of %s: %s", st.Origin, verbOf(st.Effect), strings.Join(st.Actions, ", "), st.Why))
		case policy.InPart:
			out = append(out, fmt.Sprintf("%s: enforced in part: %s of %s: %s", st.Origin, verbOf(st.Effect), strings.Join(st.Actions, ", "), st.Why))
		case policy.InView, policy.Kept:
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
	for _, f := range sources.Cedar {
		in.Cedar = append(in.Cedar, policy.CedarFile{Name: f.Name, Text: f.Text})
	}
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
			Tunnel:   r.TLS == config.TLSTunnel,
			Protocol: string(r.Protocol), Users: r.Users, Databases: r.Databases,
			Repositories: r.Repositories, Git: r.Git, Commands: r.Commands, Identity: r.Identity, Use: string(r.Use), HostKeys: r.HostKeys,
			Preset: strings.HasPrefix(source, presetSource),
			Origin: policy.Origin{Source: source, File: r.Place.File, Line: r.Place.Line, Column: r.Place.Column},
		})
	}
	return out
}

// In is the policy that a session of a project would have, without words of its
// own.
func (l *Loaded) In(project string, files []api.ProjectFile) (*policy.Snapshot, error) {
	return derive(l, words{Projects: files}, l.remembered(project))
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
		in.Rules = slices.Concat(in.Rules, rules(policy.Allow, source, p.Proxy.Allow), rules(policy.Ask, source, p.Proxy.Ask), rules(policy.Deny, source, p.Proxy.Deny))
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

// policies holds what rules now.
type policies struct {
	dir, home string

	mu      sync.RWMutex
	seen    string  // the files on disk when they were read last
	now     *Loaded // never nil once the guardian serves
	failed  string  // why the files on disk are not in force
	derived map[string]*policy.Snapshot
	order   []string // keys of derived, oldest first
}

func newPolicies(dir, home string) *policies {
	return &policies{dir: dir, home: home, now: &Loaded{}, derived: map[string]*policy.Snapshot{}}
}

func (p *policies) current() *Loaded {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.now
}

func (p *policies) failure() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.failed
}

// look remembers how the files on disk look, before they are read: a change
// while they are read is seen the next time.
func (p *policies) look() {
	now := config.Fingerprint(p.dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = now
}

// stale tells whether the files on disk have changed since they were read.
func (p *policies) stale() bool {
	now := config.Fingerprint(p.dir)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.seen != now
}

// swap puts l in force.
func (p *policies) swap(l *Loaded) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.failed = l, ""
}

// fail remembers that the files on disk are not in force.
func (p *policies) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err.Error()
}

// words are what a session adds to the common policy.
type words struct {
	Mode  string          `json:"mode"`
	Allow []string        `json:"allow"`
	Deny  []string        `json:"deny"`
	Cedar []api.CedarFile `json:"cedar"`
	// Projects are the files of its project.
	Projects []api.ProjectFile `json:"projects"`
	// Answers are those that a person gave for this session.
	Answers []config.Decision `json:"answers"`
}

func wordsOf(r api.SessionRequest) words {
	return words{Mode: r.Mode, Allow: r.Allow, Deny: r.Deny, Cedar: r.Cedar, Projects: r.Projects}
}

func (w words) empty() bool {
	return w.Mode == "" && len(w.Allow)+len(w.Deny)+len(w.Cedar)+len(w.Projects)+len(w.Answers) == 0
}

// session is the snapshot for one session of a project under l. Compiling 1,000
// rules takes milliseconds, so the same words under the same policy compile once.
func (p *policies) session(l *Loaded, project string, w words) (*policy.Snapshot, error) {
	remembered := l.remembered(project)
	if w.empty() && len(remembered) == 0 {
		return l.base, nil
	}
	text, err := json.Marshal(struct {
		words
		Remembered []policy.Rule
	}{w, remembered})
	if err != nil {
		return nil, fmt.Errorf("session policy: %w", err)
	}
	key := l.base.Digest() + " " + string(text)
	p.mu.RLock()
	s := p.derived[key]
	p.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	if s, err = derive(l, w, remembered); err != nil {
		return nil, err
	}
	p.remember(key, s)
	return s, nil
}

func (p *policies) remember(key string, s *policy.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.derived[key] == nil {
		p.order = append(p.order, key)
	}
	p.derived[key] = s
	for len(p.order) > cached {
		delete(p.derived, p.order[0])
		p.order = p.order[1:]
	}
}

func derive(l *Loaded, w words, remembered []policy.Rule) (*policy.Snapshot, error) {
	base, err := l.base, error(nil)
	if len(w.Cedar)+len(w.Projects) > 0 {
		in, err := l.InputIn("", w.Projects)
		if err != nil {
			return nil, err
		}
		in.Cedar = slices.Clone(in.Cedar)
		for _, f := range w.Cedar {
			in.Cedar = append(in.Cedar, policy.CedarFile{Name: f.Name, Text: []byte(f.Text)})
		}
		if base, err = policy.Compile(in); err != nil {
			return nil, err
		}
	}
	var mode *policy.Mode
	if w.Mode != "" {
		m, err := policy.ParseMode(w.Mode)
		if err != nil {
			return nil, err
		}
		mode = &m
	}
	extra, err := flagRules(w.Allow, w.Deny)
	if err != nil {
		return nil, err
	}
	extra = append(append(extra, remembered...), answerRules(w.Answers)...)
	return base.With(extra, mode)
}

func flagRules(allow, deny []string) ([]policy.Rule, error) {
	var rules []policy.Rule
	var errs []error
	for _, list := range []struct {
		effect policy.Effect
		flag   string
		words  []string
	}{{policy.Allow, "--allow", allow}, {policy.Deny, "--deny", deny}} {
		for _, word := range list.words {
			rule, err := flagRule(list.effect, list.flag, word)
			rules, errs = append(rules, rule), append(errs, err)
		}
	}
	return rules, errors.Join(errs...)
}

// CheckFlags tells whether the words of --allow and --deny can be rules, before
// anybody is asked for a session.
func CheckFlags(allow, deny []string) error {
	rules, err := flagRules(allow, deny)
	if err != nil {
		return err
	}
	_, err = policy.Compile(policy.Input{Rules: rules})
	return err
}

// flagRule reads DOMAIN[:PORT], where DOMAIN may be a wildcard, an address
// (an IPv6 one with a port stands in brackets) or a range.
func flagRule(effect policy.Effect, flag, word string) (policy.Rule, error) {
	r := policy.Rule{Effect: effect, Origin: policy.Origin{Source: flag}}
	bad := func(msg string) error {
		return &policy.SyntaxError{File: flag, Msg: fmt.Sprintf("%q %s", word, msg), Hint: "want DOMAIN[:PORT]"}
	}
	host, port, hasPort := splitFlag(word)
	if host == "" {
		return r, bad("names no destination")
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return r, bad("has no port from 1 to 65535 after its colon")
		}
		r.Ports = []uint16{uint16(n)}
	}
	if isRange(host) {
		r.CIDR = host
	} else {
		r.Domain = host
	}
	return r, nil
}

func splitFlag(word string) (host, port string, hasPort bool) {
	if _, err := netip.ParseAddr(word); err == nil || isRange(word) {
		return word, "", false
	}
	if inner, ok := strings.CutPrefix(word, "["); ok {
		host, rest, _ := strings.Cut(inner, "]")
		port, hasPort := strings.CutPrefix(rest, ":")
		return host, port, hasPort || rest != ""
	}
	if i := strings.LastIndexByte(word, ':'); i >= 0 {
		return word[:i], word[i+1:], true
	}
	return word, "", false
}

func isRange(word string) bool {
	_, err := netip.ParsePrefix(word)
	return err == nil
}

// problems takes an error of Load apart, one for each place in a file. What
// has no place keeps the words of the whole error.
func problems(err error) []api.Problem {
	switch e := err.(type) { //nolint:errorlint // the tree is walked, not searched
	case *config.Error:
		return []api.Problem{{File: e.File, Line: e.Line, Column: e.Column, Message: e.Msg, Hint: e.Hint}}
	case *policy.SyntaxError:
		return []api.Problem{{File: e.File, Line: e.Line, Column: e.Column, Message: e.Msg, Hint: e.Hint}}
	case interface{ Unwrap() []error }:
		var all []api.Problem
		for _, one := range e.Unwrap() {
			all = append(all, problems(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		if e.Unwrap() == nil {
			break // net's errors may wrap none
		}
		inner := problems(e.Unwrap())
		if slices.ContainsFunc(inner, func(p api.Problem) bool { return p.File != "" }) {
			return inner
		}
	}
	return []api.Problem{{Message: err.Error()}}
}
