package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/internal/tenants"
)

// Snapshot is a compiled policy. It never changes; many goroutines may decide
// by it at once.
type Snapshot struct {
	rules     []*rule // in the order they were given
	layers    []*index
	rewriters *rewriters
	cedar     *cedarSet // nil where no Cedar file has anything to enforce
	files     []CedarFile
	notes     []Note
	// statements are those of the files, with what keeps each.
	statements []Statement
	servers    map[string]*MCPServer
	answers    map[string]Verdict // to asks about tools, by MCPSubject
	unlisted   Effect
	mode       Mode
	digest     string
}

// Compile checks every part of the input and makes a Snapshot, or returns
// every problem, each a *source.Problem, joined. An empty input is valid: nothing
// is listed.
func Compile(in Input) (*Snapshot, error) {
	var errs []error
	if in.Unlisted != Ask && in.Unlisted != Deny {
		errs = append(errs, &source.Problem{Msg: "unlisted destinations can be asked or denied, not " + in.Unlisted.String()})
	}
	if in.Mode > Record {
		errs = append(errs, &source.Problem{Msg: "unknown " + in.Mode.String()})
	}
	plain, answers := toolAnswers(in.Rules, nil)
	rules, ruleErrs := compileRules(plain, 0, false)
	servers, serverErrs := compileServers(in.Servers)
	set, cedarErrs := loadCedar(in.Cedar, servers)
	rewriters, rewriteErrs := compileRewrites(in.Rewrites)
	if err := errors.Join(slices.Concat(errs, ruleErrs, rewriteErrs, serverErrs, cedarErrs)...); err != nil {
		return nil, err
	}
	s := &Snapshot{rules: rules, rewriters: rewriters, unlisted: in.Unlisted, mode: in.Mode, notes: set.notes,
		statements: set.statements, servers: servers, answers: answers}
	s.layers = []*index{newIndex(append(slices.Clone(rules), set.rules...))}
	if len(set.connect)+len(set.request)+len(set.rewrite)+len(set.mcp)+len(set.secret) > 0 {
		s.cedar = set
	}
	for _, f := range in.Cedar {
		s.files = append(s.files, CedarFile{Name: f.Name, Text: slices.Clone(f.Text)})
	}
	s.digest = s.sum()
	return s, nil
}

// With is the snapshot with a session's own words on top: its flags and, if
// mode is not nil, its mode. An allow given so is a person's explicit word: it
// stands before ask rules, but never before a forbid.
func (s *Snapshot) With(extra []Rule, mode *Mode) (*Snapshot, error) {
	if s == nil {
		return nil, errors.New("policy: no snapshot to add to")
	}
	next := *s
	if mode != nil {
		if *mode > Record {
			return nil, &source.Problem{Msg: "unknown " + mode.String()}
		}
		next.mode = *mode
	}
	extra, next.answers = toolAnswers(extra, s.answers)
	rules, errs := compileRules(extra, len(s.rules), true)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(rules) > 0 {
		next.rules = append(slices.Clip(s.rules), rules...)
		next.layers = append(slices.Clip(s.layers), newIndex(rules))
	}
	if next.digest = next.sum(); next.digest == s.digest {
		return s, nil
	}
	return &next, nil
}

// Digest names what the snapshot decides, not where it is written: the same
// rules in another order or file have the same digest. "" for nil.
func (s *Snapshot) Digest() string {
	if s == nil {
		return ""
	}
	return s.digest
}

// Mode is the snapshot's mode; Enforce for nil.
func (s *Snapshot) Mode() Mode {
	if s == nil {
		return Enforce
	}
	return s.mode
}

// Warnings lists what is enforced, but may not be what its author meant.
func (s *Snapshot) Warnings() []Note {
	if s == nil {
		return nil
	}
	return slices.Clone(s.notes)
}

func (s *Snapshot) sum() string {
	var lines []string
	for _, r := range s.rules {
		lines = append(lines, strconv.Itoa(int(r.tier))+" "+r.name)
	}
	if s.rewriters != nil {
		for _, w := range s.rewriters.all {
			for _, c := range w.changes {
				h := sha256.Sum256([]byte(c.Header + "\x00" + c.Value))
				lines = append(lines, w.rule.name+" "+c.String()+" "+hex.EncodeToString(h[:]))
			}
		}
	}
	for _, server := range s.servers {
		lines = append(lines, server.words())
	}
	for subject, v := range s.answers {
		lines = append(lines, "answer "+v.Effect.String()+" "+subject)
	}
	for _, f := range s.files {
		h := sha256.Sum256(f.Text)
		lines = append(lines, "cedar "+hex.EncodeToString(h[:]))
	}
	slices.Sort(lines)
	lines = append(slices.Compact(lines), "unlisted "+s.unlisted.String(), "mode "+s.mode.String())
	h := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return "sha256:" + hex.EncodeToString(h[:])
}

// toolAnswers takes the remembered answers about tools out of the rules. A deny
// stands before an allow.
func toolAnswers(in []Rule, before map[string]Verdict) (rest []Rule, answers map[string]Verdict) {
	answers = before
	for _, r := range in {
		if r.Tool == "" {
			rest = append(rest, r)
			continue
		}
		if len(answers) == len(before) {
			answers = maps.Clone(before)
		}
		if answers == nil {
			answers = map[string]Verdict{}
		}
		if old, had := answers[r.Tool]; !had || old.Effect != Deny {
			answers[r.Tool] = Verdict{Effect: r.Effect, Rule: r.Effect.String() + " tool " + r.Tool, Origin: r.Origin}
		}
	}
	return rest, answers
}

func compileRules(in []Rule, first int, session bool) ([]*rule, []error) {
	out := make([]*rule, 0, len(in))
	var errs []error
	for i, r := range in {
		c, err := compileRule(r, session)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c.order = first + i
		out = append(out, c)
	}
	return out, errs
}

func compileRule(in Rule, session bool) (*rule, error) {
	r := &rule{origin: in.Origin, tunnel: in.Tunnel, opened: in.Inspect}
	if (in.Tunnel || in.Inspect) && in.Effect != Allow {
		return nil, problem(in.Origin, "tls says how an allowed connection is passed on", "write it in an allow rule")
	}
	switch in.Effect {
	case Deny:
		r.tier = tierForbid
		if in.Answer {
			r.tier = tierRefused
		}
	case Ask:
		r.tier = tierAsk
	case Allow:
		r.tier = tierAllow
		if session || in.Answer {
			r.tier = tierPerson
		}
	default:
		return nil, problem(in.Origin, "unknown "+in.Effect.String(), "want allow, ask or deny")
	}
	login, err := compileLogin(&in)
	if err != nil {
		return nil, err
	}
	r.login = login
	if slices.Contains(in.Ports, 0) {
		return nil, problem(in.Origin, "port 0 is no port", "want 1 to 65535")
	}
	switch {
	case in.Ports != nil && len(in.Ports) == 0:
		return nil, problem(in.Origin, "the list of ports is empty", "leave it out for 443 and 80")
	case in.Ports != nil:
		r.ports = cleanPorts(in.Ports)
	case r.tier.effect() != Deny:
		r.ports = defaultPorts()
	}
	switch {
	case in.Domain != "" && in.CIDR != "":
		err = problem(in.Origin, "a rule names a domain or a cidr, not both", "write two rules")
	case in.CIDR != "":
		err = r.setCIDR(in)
	case in.Domain != "":
		err = r.setDomain(in)
	default:
		err = problem(in.Origin, "a rule must name a domain or a cidr", "for example domain: api.example.com")
	}
	if err != nil {
		return nil, err
	}
	if r.request, err = compileRequest(in); err != nil {
		return nil, err
	}
	r.speak()
	if !in.Preset {
		r.rank++ // a person's word is more exact than a preset's
	}
	return r, nil
}

func (r *rule) setDomain(in Rule) error {
	if _, err := netip.ParsePrefix(in.Domain); err == nil {
		return problem(in.Origin, fmt.Sprintf("domain %q is a range of addresses", in.Domain), "write cidr: "+in.Domain)
	}
	// An ask or a deny may be as wide as it likes: someone sees each case.
	parse := authority.ParseBroadPattern
	if in.Effect == Allow {
		parse = authority.ParsePattern
	}
	p, err := parse(in.Domain)
	if err != nil {
		return problem(in.Origin, err.Error(), "")
	}
	if addr, err := netip.ParseAddr(p.Base()); err == nil {
		r.prefix = netip.PrefixFrom(addr, addr.BitLen())
		return nil
	}
	r.pattern = p
	if host := tenants.Met(p); in.Tunnel && host != "" {
		return problem(in.Origin, fmt.Sprintf("tls: tunnel for %s: many tenants share %s, and only what is inside TLS "+
			"tells them apart", in.Domain, host), "leave out tls: tunnel; connections to it are always inspected")
	}
	return nil
}

func (r *rule) setCIDR(in Rule) error {
	p, err := netip.ParsePrefix(in.CIDR)
	if err != nil {
		if a, err := netip.ParseAddr(in.CIDR); err == nil && a.Zone() == "" {
			a = a.Unmap()
			return problem(in.Origin, fmt.Sprintf("cidr %q has no length", in.CIDR),
				fmt.Sprintf("for one address write cidr: %s/%d", a, a.BitLen()))
		}
		return problem(in.Origin, fmt.Sprintf("cidr %q is not an address and a length", in.CIDR),
			"for example cidr: 203.0.113.0/24")
	}
	switch {
	case p.Addr().Is4In6():
		return problem(in.Origin, fmt.Sprintf("cidr %q is an IPv4 range in IPv6 clothes", in.CIDR), "write the IPv4 range")
	case p != p.Masked():
		return problem(in.Origin, fmt.Sprintf("cidr %q has bits set after its length", in.CIDR),
			"did you mean "+p.Masked().String()+"?")
	case p.Bits() == 0 && in.Effect == Allow:
		return problem(in.Origin, fmt.Sprintf("cidr %q is too broad, it would match every address", in.CIDR), "")
	}
	r.prefix = p
	return nil
}

// target is the host part of the rule in its own notation.
func (r *rule) target() string {
	if !r.prefix.IsValid() {
		return r.pattern.String()
	}
	if r.prefix.IsSingleIP() {
		return r.prefix.Addr().String()
	}
	return r.prefix.String()
}

// speak fills in the words. The name is also the rule's identity in the digest.
func (r *rule) speak() {
	host := r.target()
	r.name = r.tier.verb() + " " + host
	switch {
	case r.ports == nil && r.tier.effect() != Deny:
		r.name += " port *"
	case r.ports != nil && !slices.Equal(r.ports, defaultPorts()):
		r.name += " port " + portList(r.ports)
	case r.ports != nil && r.tier.effect() == Deny:
		r.name += " port 443,80"
	}
	switch {
	case r.tunnel:
		r.name += " tunnel"
	case r.opened:
		r.name += " inspect"
	}
	what := host
	if r.login != nil {
		r.name += " " + r.login.words()
		what = r.login.words() + " of " + host
	}
	if r.request != nil {
		r.name += " " + r.request.words()
		what = r.request.words() + " of " + host
	}
	r.rank = 4 * len(r.pattern.Base())
	switch {
	case r.prefix.IsValid():
		r.rank = 2 * r.prefix.Bits()
	case !r.pattern.Wildcard():
		r.rank += 2
	}
	place := quotePlace(r.origin)
	r.verdict = Verdict{Effect: r.tier.effect(), Rule: r.name, Origin: r.origin}
	switch r.tier {
	case tierForbid:
		r.verdict.Reason = "denied by the rule \"" + r.name + "\"" + place
		r.verdict.Hints = forbidHints(r, what)
	case tierRefused:
		r.verdict.Reason = "a person denied \"" + r.name + "\"" + place
		r.verdict.Hints = refusedHints(r)
	case tierAsk:
		r.verdict.Reason = "the rule \"" + r.name + "\"" + place + " asks a person first"
	case tierAllow, tierPerson:
		r.verdict.Reason = "allowed by the rule \"" + r.name + "\"" + place
	case tiers:
	}
	r.otherwise = "the rule \"" + r.name + "\"" + place + " names this host, but not this request"
	if r.login != nil {
		r.otherwise = "the rule \"" + r.name + "\"" + place + " names this host, but not " + r.login.whole()
		r.verdict.Identity, r.verdict.HostKeys = r.login.identity, r.login.hostKeys
		r.verdict.AskFirst = r.login.askFirst
	}
	r.elsewhere = "the rule \"" + r.name + "\"" + place + " names this host, but only on port " + portList(r.ports)
}

func (t tier) verb() string { return t.effect().String() }

func quotePlace(o source.Position) string {
	if s := o.String(); s != "" {
		return " at " + s
	}
	return ""
}
