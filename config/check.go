package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/internal/urlpath"
)

// Parse reads one configuration file over the defaults. name stands in errors
// and explanations. The error joins one *source.Problem for each problem.
func Parse(name string, text []byte) (*Config, error) {
	c := Default()
	r := newReader(name)
	r.decode(text, c)
	c.places = r.places
	r.check(c)
	r.unreachable(c.Proxy.Allow, "proxy.allow", c.Proxy.Hosts)
	r.unreachable(c.Proxy.Ask, "proxy.ask", c.Proxy.Hosts)
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// check holds the values against what they mean, and writes the few that have
// two spellings in the one that readers expect.
func (r *reader) check(c *Config) {
	if c.Version != 1 {
		r.problem(r.places["version"], "write version: 1", "version: this cloister reads version 1, not %d", c.Version)
	}
	c.Proxy.Unlisted = c.Proxy.Unlisted.older()
	r.presets(c.Proxy.Presets)
	r.rules(c.Proxy.Allow, "proxy.allow", authority.ParsePattern)
	r.rules(c.Proxy.Ask, "proxy.ask", authority.ParsePattern)
	r.rules(c.Proxy.Deny, "proxy.deny", authority.ParseBroadPattern)
	r.rewrites(c.Proxy.Rewrite)
	for key, n := range map[string]int{
		"requests_per_minute": c.Proxy.RateLimit.RequestsPerMinute,
		"concurrent_requests": c.Proxy.RateLimit.ConcurrentRequests,
		"names_per_minute":    c.Proxy.RateLimit.NamesPerMinute,
	} {
		if p, written := r.places["proxy.rate_limit."+key]; written && n == 0 && len(r.problems) == 0 {
			r.problem(p, "a number from 1", "proxy.rate_limit.%s: none at all", key)
		}
	}
	c.Proxy.Hosts = r.hosts(c.Proxy.Hosts)
	r.secrets(c.Secrets)
	r.logins(c.Logins)
	r.servers(c.MCP.Servers)
	r.patterns(c.Hostexec)
	r.shims(c.Hostexec.Shims)
	r.hostPaths(c.Proxy.UpstreamCA, "proxy.upstream_ca")
	r.exposed(c.Filesystem.Expose)
	r.hostPaths(c.Filesystem.Refs, "filesystem.refs")
	r.projectPaths(c.Filesystem.Protect, "filesystem.protect")
	r.projectPaths(c.Filesystem.Hide, "filesystem.hide")
	r.resources(c.Resources)
	r.hostPath(c.Audit.AnchorFile, "audit.anchor_file")
	r.wholePath(c.Audit.AnchorCommand, "audit.anchor_command")
	r.wholePath(c.Notify.Command, "notify.command")
	if u, err := url.Parse(c.Notify.Webhook); c.Notify.Webhook != "" && (err != nil || u.Host == "" ||
		u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "127.0.0.1")) {
		r.problem(r.places["notify.webhook"], "an https address, or http on 127.0.0.1", "notify.webhook: not such an address")
	}
	if _, written := r.places["hostexec.limits.pids"]; written && c.Hostexec.Limits.PIDs < 1 {
		r.problem(r.places["hostexec.limits.pids"], "", "hostexec.limits.pids: none at all")
	}
	r.program(c.Defaults.Agent, "defaults.agent")
	if d := c.Defaults.Devcontainer; d != "" && !filepath.IsLocal(d) {
		r.problem(r.places["defaults.devcontainer"], "auto, none, or a path from the project's top, such as .devcontainer/db",
			"defaults.devcontainer: %q is outside the project", d)
	}
	for i, source := range c.Devcontainer.Features {
		if registry, path, _ := strings.Cut(strings.TrimSuffix(source, "/*"), "/"); registry == "" || path == "" ||
			strings.ContainsAny(source, "*:@ ") && !strings.HasSuffix(source, "/*") || strings.Contains(path, "*") ||
			strings.ToLower(source) != source {
			r.problem(r.places[at("devcontainer.features", i)], "such as ghcr.io/devcontainers/features/*",
				"devcontainer.features[%d]: %q is no source of features", i, source)
		}
	}
	for name, a := range c.Agents {
		key := join("agents", name)
		r.program(name, key)
		for v := range a.Env {
			if v == "" || strings.ContainsAny(v, "=\x00") {
				r.problem(r.places[join(key+".env", v)], "", "%s.env: %q is no variable's name", key, v)
			}
		}
	}
}

// IsProgram reports whether a word can be the name of a program that a person means as it stands: what a shell would
// replace or take apart, as in ${HOME}, is not.
func IsProgram(name string) bool {
	return name != "" && !strings.HasPrefix(name, "-") && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune("/$`'\"\\*?[]{}()<>|&;!#~", r)
	})
}

// program holds the name of an agent to what can be one.
func (r *reader) program(name, key string) {
	if name == "" || IsProgram(name) {
		return
	}
	hint := "write the program's name alone, such as claude"
	if strings.Contains(name, "$") {
		hint += ": variables are not replaced here"
	}
	r.problem(r.places[key], hint, "%s: %q is not the name of a program", key, name)
}

func at(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (r *reader) presets(names []string) {
	for i, name := range names {
		if name == "" || isWholePreset(name) {
			continue // empty: reported already
		}
		_, err := LoadPreset(name)
		if wrong, ok := errors.AsType[*presetError](err); ok {
			r.problem(r.places[at("proxy.presets", i)], wrong.hint, "proxy.presets: %s", wrong.msg)
		} else if err != nil {
			r.problem(r.places[at("proxy.presets", i)], "", "proxy.presets: %v", err)
		}
	}
}

func (r *reader) rules(rules []Rule, list string, parse func(string) (authority.Pattern, error)) {
	r.rulesAt(rules, func(i int) string { return at(list, i) }, parse)
}

func (r *reader) rulesAt(rules []Rule, keyOf func(int) string, parse func(string) (authority.Pattern, error)) {
	for i := range rules {
		rule, key := &rules[i], keyOf(i)
		if rule.Place.Line == 0 {
			continue // reported already
		}
		set := 0
		for _, s := range []string{rule.Domain, rule.Pattern, rule.CIDR} {
			if s != "" {
				set++
			}
		}
		if set != 1 {
			r.problem(rule.Place, "", "%s: a rule has exactly one of domain, pattern and cidr", key)
			continue
		}
		if rule.Pattern != "" {
			rule.Domain, rule.Pattern = rule.Pattern, ""
			r.places[key+".domain"] = r.places[key+".pattern"]
		}
		if rule.Domain != "" {
			if _, err := parse(rule.Domain); err != nil {
				r.problem(r.places[key+".domain"], "", "%s: %v", key, err)
			}
		} else {
			r.cidr(rule, key)
		}
		for j, port := range rule.Ports {
			if port == 0 {
				r.problem(r.places[at(key+".ports", j)], "", "%s: port 0 is no port", key)
			}
		}
		if rule.Ports != nil && len(rule.Ports) == 0 {
			r.problem(r.places[key+".ports"], "leave ports out for 443 and 80", "%s: an empty list of ports matches nothing",
				key)
		}
		r.requests(rule, key)
	}
}

// noMethods are words that a person takes for methods.
var noMethods = map[string]string{
	"FETCH": "for git: git: [fetch] of protocol: ssh, or the preset git-fetch:HOST; reading is GET and HEAD",
	"PULL":  "for git: git: [fetch] of protocol: ssh, or the preset git-fetch:HOST; reading is GET and HEAD",
	"CLONE": "for git: git: [fetch] of protocol: ssh, or the preset git-fetch:HOST; reading is GET and HEAD",
	"PUSH":  "for git: git: [push] of protocol: ssh; writing is POST, PUT and PATCH",
	"READ":  "reading is GET and HEAD",
	"WRITE": "writing is POST, PUT and PATCH",
	"ANY":   "leave methods out for every method",
	"ALL":   "leave methods out for every method",
}

// unreachable tells of a rule that allows what leads nowhere: the gate dials no loopback
// address unless proxy.hosts says so.
func (r *reader) unreachable(rules []Rule, list string, hosts map[string]string) {
	for i, rule := range rules {
		name := strings.TrimSuffix(strings.ToLower(rule.Domain), ".")
		if hosts[name] != "" {
			continue
		}
		if name == "localhost" || strings.HasSuffix(name, ".localhost") {
			r.problem(r.places[at(list, i)+".domain"],
				"a service of this machine gets another name, in proxy.hosts: {db.internal.example: \"127.0.0.1:5432\"}, and a "+
					"rule that allows that",
				"%s: inside, %s is the cloister's own loopback", at(list, i), rule.Domain)
		}
	}
}

// requests holds what a rule says of requests to what a request can be.
func (r *reader) requests(rule *Rule, key string) {
	for j, method := range rule.Methods {
		if method != "" && strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			hint := "methods are written as they are sent: GET, HEAD, POST"
			if upper := strings.ToUpper(method); strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" {
				hint = "write " + upper
			}
			r.problem(r.places[at(key+".methods", j)], hint, "%s: %q is no method", key, method)
		} else if hint, ok := noMethods[method]; ok {
			r.problem(r.places[at(key+".methods", j)], hint, "%s: no program sends the method %s", key, method)
		}
	}
	for j, path := range rule.Paths {
		if _, err := urlpath.ParseGlob(path); path != "" && err != nil {
			r.problem(r.places[at(key+".paths", j)], `such as "/repos/acme/**"`, "%s: path %q: %v", key, path, err)
		}
	}
	for _, list := range []struct {
		word string
		n    int
	}{{"methods", len(rule.Methods)}, {"paths", len(rule.Paths)}, {"headers", len(rule.Headers)},
		{"query", len(rule.Query)}} {
		if p, written := r.places[key+"."+list.word]; written && list.n == 0 {
			r.problem(p, "leave it out for every request", "%s: %s names nothing", key, list.word)
		}
	}
}

// rewrites checks which requests each rule means; what it does to headers is
// policy's to judge.
func (r *reader) rewrites(list []Rewrite) {
	for i, w := range list {
		rule := []Rule{w.Rule()}
		r.rulesAt(rule, func(int) string { return at("proxy.rewrite", i) }, authority.ParsePattern)
		if w.Place.Line > 0 && len(w.Set)+len(w.Remove) == 0 {
			r.problem(w.Place, "for example set: {X-Team: blue}, or remove: [Cookie]", "%s: sets and removes nothing",
				at("proxy.rewrite", i))
		}
	}
}

func (r *reader) cidr(rule *Rule, key string) {
	p, err := netip.ParsePrefix(rule.CIDR)
	place := r.places[key+".cidr"]
	switch {
	case err != nil:
		r.problem(place, "write it as 203.0.113.0/24", "%s: %q is not a range of addresses", key, rule.CIDR)
	case p != p.Masked():
		r.problem(place, "write "+p.Masked().String(), "%s: %s has bits set outside its range", key, rule.CIDR)
	case p.Addr().Is4In6():
		r.problem(place, "write the IPv4 range itself", "%s: %s is an IPv4 range in IPv6 spelling", key, rule.CIDR)
	default:
		rule.CIDR = p.String()
	}
}

// hosts returns the same map by canonical names.
func (r *reader) hosts(in map[string]string) map[string]string {
	out := make(map[string]string, len(in))
	for name, target := range in {
		place := r.places[join("proxy.hosts", name)]
		a, err := authority.Parse(name, 1)
		if err != nil {
			r.problem(place, "", "proxy.hosts: %v", err)
			continue
		}
		if _, isAddr := a.Addr(); isAddr {
			r.problem(place, "write the name that programs inside will use", "proxy.hosts: %s is an address, not a name", name)
			continue
		}
		if _, twice := out[a.Host()]; twice {
			r.problem(place, "", "proxy.hosts: %s stands here in two spellings", a.Host())
			continue
		}
		ap, err := netip.ParseAddrPort(target)
		if err != nil || ap.Port() == 0 || ap.Addr().Zone() != "" {
			r.problem(place, "write it as 127.0.0.1:8443 or [::1]:8443", "proxy.hosts: %q is not an address with a port", target)
			continue
		}
		out[a.Host()] = ap.String()
	}
	return out
}

func (r *reader) patterns(h Hostexec) {
	for list, rules := range h.lists() {
		for i, rule := range rules {
			key := at("hostexec."+list, i)
			if rule.Place.Line == 0 {
				continue // reported already
			}
			if (rule.Pattern == "") == (rule.Program == "") {
				r.problem(rule.Place, "", "%s: a rule has a pattern or a program", key)
			} else if _, err := regexp.Compile(rule.Pattern); err != nil {
				r.problem(r.places[key+".pattern"], "", "%s: %v", key, err)
			}
		}
	}
}

// shims holds their names to what can be a program's, and not cloister's own.
func (r *reader) shims(names []string) {
	for i, name := range names {
		key := at("hostexec.shims", i)
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") != "" ||
			strings.HasPrefix(name, "-") || strings.HasPrefix(name, ".") {
			r.problem(r.places[key], "write the program's name alone, such as npm", "%s: %q is not the name of a program", key,
				name)
		}
		if name == "hostexec" || name == "cloister" {
			r.problem(r.places[key], "", "%s: %s stands for itself", key, name)
		}
	}
}

func (h Hostexec) lists() map[string][]CommandRule {
	return map[string][]CommandRule{"auto_approve": h.AutoApprove, "manual_approve": h.ManualApprove, "deny": h.Deny}
}

func (r *reader) hostPaths(paths []string, list string) {
	for i, p := range paths {
		r.hostPath(p, at(list, i))
	}
}

func (r *reader) hostPath(p, key string) {
	if p == "" || filepath.IsAbs(p) || p == "~" || strings.HasPrefix(p, "~/") {
		return // empty: reported already
	}
	hint := "write the whole path, or ~/… for one in your home"
	if strings.HasPrefix(p, "~") {
		hint = "only ~/… is understood, not another person's home"
	}
	r.problem(r.places[key], hint, "%s: %q is not an absolute path", key, p)
}

// wholePath holds a command to a program that no PATH chooses.
func (r *reader) wholePath(argv []string, key string) {
	if len(argv) > 0 && !filepath.IsAbs(argv[0]) {
		r.problem(r.places[at(key, 0)], "write the program's whole path", "%s: %q is not an absolute path", key, argv[0])
	}
}

func (r *reader) exposed(list []string) {
	for i, text := range list {
		if text == "" {
			continue // reported already
		}
		e, err := ParseExpose(text)
		if err != nil {
			r.problem(r.places[at("filesystem.expose", i)], "", "%v", err)
			continue
		}
		r.hostPath(e.Path, at("filesystem.expose", i))
	}
}

// Expose is one host path that a person shows to a cloister.
type Expose struct {
	Path     string
	Writable bool
}

// ParseExpose reads PATH[:ro|:rw], as in filesystem.expose and --expose.
func ParseExpose(text string) (Expose, error) {
	path, mode := text, "ro"
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.Contains(text[i:], "/") {
		path, mode = text[:i], text[i+1:]
	}
	if path == "" || mode != "ro" && mode != "rw" {
		return Expose{}, fmt.Errorf("expose %q: write PATH, PATH:ro or PATH:rw", text)
	}
	return Expose{Path: path, Writable: mode == "rw"}, nil
}

// braces are those of a shell's {a,b}.
var braces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[^{}/]*,[^{}/]*\}`) })

func (r *reader) projectPaths(paths []string, list string) {
	for i, p := range paths {
		key := at(list, i)
		switch {
		case p == "": // reported already
		case filepath.IsAbs(p) || strings.HasPrefix(p, "~"):
			r.problem(r.places[key], "write it relative to the project's top folder", "%s: %q is not a path in the project", key,
				p)
		case slices.Contains(strings.Split(p, "/"), ".."):
			r.problem(r.places[key], "", "%s: %q leads out of the project", key, p)
		case path.Clean(p) == ".":
			r.problem(r.places[key], "", "%s: %q is the whole project", key, p)
		case braces().MatchString(p):
			r.problem(r.places[key], "write a line for each, or [{] for the character",
				"%s: %q: braces stand for themselves, as in .gitignore", key, p)
		case !r.joined && strings.HasPrefix(p, "!") && !slices.ContainsFunc(paths[:i], func(p string) bool {
			return !strings.HasPrefix(p, "!")
		}):
			r.problem(r.places[key], "write it behind the one that it takes something back of",
				"%s: %q takes back what no line before it names", key, p)
		case list == "filesystem.hide" && path.Clean(strings.ToLower(p)) == ".git":
			r.problem(r.places[key], "--workspace none shows no project at all; a file in it can be named",
				"%s: git needs the folder .git, which cannot be hidden", key)
		default:
			if _, err := path.Match(p, ""); err != nil {
				r.problem(r.places[key], "", "%s: %q: %v", key, p, err)
			}
		}
	}
}

func (r *reader) resources(res Resources) {
	// What is no number at all has been reported by now.
	good := func(key string) bool {
		at, written := r.places[key]
		return written && !slices.ContainsFunc(r.problems, func(e *source.Problem) bool {
			return e.Line == at.Line && e.Column == at.Column
		})
	}
	if good("resources.cpus") && res.CPUs < 0.01 {
		r.problem(r.places["resources.cpus"], "", "resources.cpus: less than a hundredth of a processor")
	}
	if good("resources.pids") && res.PIDs < 2 {
		r.problem(r.places["resources.pids"], "", "resources.pids: a shell with one command needs two")
	}
}
