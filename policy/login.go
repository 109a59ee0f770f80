package policy

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/reading"
	"cloister/internal/urlpath"
	"cloister/policy/allowing"
)

// The protocols, and what git does by SSH.
const (
	Postgres = "postgres"
	SSH      = "ssh"
	GitFetch = "fetch"
	GitPush  = "push"
)

// Protocols are those that rules can speak of, with the port that each means.
func Protocols() map[string]uint16 { return map[string]uint16{Postgres: 5432, SSH: 22} }

// Logins reports whether rules speak of logins by a protocol.
func (s *Snapshot) Logins(protocol string) bool {
	speaks := func(rules []*rule) bool {
		return slices.ContainsFunc(rules, func(r *rule) bool { return r.login != nil && r.login.protocol == protocol })
	}
	for _, ix := range s.layers {
		if speaks(ix.every) {
			return true
		}
		for _, m := range []map[string][]*rule{ix.exact, ix.below} {
			for _, rules := range m {
				if speaks(rules) {
					return true
				}
			}
		}
		for _, rules := range ix.cidr {
			if speaks(rules) {
				return true
			}
		}
	}
	return false
}

// loginMatcher is the part of a rule that speaks of logins. What is empty fits
// every one.
type loginMatcher struct {
	protocol  string
	users     []string
	databases []string
	// Of SSH. Where one of these is there the rule speaks of what is to run.
	commands     []string
	repositories []repository
	git          []string
	identity     string
	askFirst     bool // a person, each time that it signs
	hostKeys     []string
}

// runs reports whether the rule speaks of what is to run, and not of every login.
func (m *loginMatcher) runs() bool { return len(m.commands)+len(m.repositories)+len(m.git) > 0 }

// match reports whether a rule of that effect speaks of a login. Of one that is only
// that, an allow rule about what is to run does, so that it can be asked for, and a
// deny rule does not. Where a deny rule speaks of repositories it speaks also of
// every command that is not plainly git's: whatever runs there could reach them.
func (m *loginMatcher) match(l *reading.Login, effect Effect) bool {
	switch {
	case l.Protocol != m.protocol || !fitsAny(m.users, l.User) || !fitsAny(m.databases, l.Database):
		return false
	case !m.runs():
		return true
	case l.Command == "":
		return effect == Allow
	case len(m.commands) > 0:
		return slices.ContainsFunc(m.commands, func(p string) bool { return fitsCommand(p, l.Command) })
	case l.Repository == "":
		return effect == Deny
	}
	return (len(m.git) == 0 || slices.Contains(m.git, l.Git())) &&
		(len(m.repositories) == 0 || slices.ContainsFunc(m.repositories, func(r repository) bool {
			return r.match(l.Repository, effect)
		}))
}

func fitsAny(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return urlpath.Wild(p, text) })
}

// fitsCommand holds a command line to a pattern. A star stands for nothing that a
// shell reads as more than a word: "make *" is not "make; rm -r .".
func fitsCommand(pattern, command string) bool {
	if pattern == "*" {
		return true
	}
	if !strings.Contains(pattern, "*") {
		return pattern == command
	}
	return !strings.ContainsAny(command, shellWords) && urlpath.Wild(pattern, command)
}

const shellWords = ";&|<>()$`\\\"'\n\r\t*?[]{}!~#"

// repository is a pattern of repositories: by segments, as paths of requests; with a
// slash before it, of paths from the root alone.
type repository struct {
	text        string
	glob, folds urlpath.Glob // folds is in lower case
	root        bool
}

func parseRepository(text string) (repository, error) {
	r := repository{text: text, root: strings.HasPrefix(text, "/")}
	pattern := "/" + trimRepository(text)
	var err error
	if r.glob, err = urlpath.ParseGlob(pattern); err == nil {
		r.folds, err = urlpath.ParseGlob(strings.ToLower(pattern))
	}
	if err != nil {
		return r, fmt.Errorf("repository %q: %w", text, err)
	}
	return r, nil
}

// trimRepository is the part of a path that names a repository.
func trimRepository(path string) string {
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	return strings.TrimSuffix(path, "/")
}

// match holds a path to the pattern. Some servers do not tell upper from lower
// case: a deny does not either.
func (r repository) match(path string, effect Effect) bool {
	glob, text := r.glob, trimRepository(path)
	if effect == Deny {
		glob, text = r.folds, strings.ToLower(text)
	} else if r.root && !strings.HasPrefix(path, "/") {
		return false
	}
	p, err := urlpath.Parse("/" + text)
	return err == nil && glob.Match(p)
}

// words are the matcher in a rule's name, which is also its identity.
func (m *loginMatcher) words() string {
	out := []string{m.protocol}
	add := func(word string, list []string) {
		if len(list) > 0 {
			out = append(out, word+" "+strings.Join(list, ","))
		}
	}
	add("user", m.users)
	add("database", m.databases)
	add("git", m.git)
	for _, r := range m.repositories {
		add("repository", []string{r.text})
	}
	add("command", m.commands)
	if m.identity != "" {
		add("as", []string{m.identity})
	}
	if m.askFirst {
		add("after", []string{"asking"})
	}
	add("host key", m.hostKeys)
	return strings.Join(out, " ")
}

// whole is what a login is held to, in words.
func (m *loginMatcher) whole() string {
	if m.protocol == SSH {
		return "this user with this command"
	}
	return "this user with this database"
}

// compileLogin reads what a rule says of logins; nil where it says nothing.
func compileLogin(in *Rule) (*loginMatcher, error) {
	bad := func(msg, hint string) error { return problem(in.Origin, msg, hint) }
	ofSSH := len(in.Repositories)+len(in.Git)+len(in.Commands)+len(in.HostKeys) > 0 || in.Identity != "" || in.Use != ""
	if in.Protocol == "" {
		switch {
		case ofSSH:
			return nil, bad("repositories, git, commands, identity and host_keys belong to a protocol", "write protocol: ssh")
		case len(in.Users)+len(in.Databases) > 0:
			return nil, bad("users and databases belong to a protocol", "write protocol: postgres, or protocol: ssh")
		}
		return nil, nil
	}
	port, known := Protocols()[in.Protocol]
	switch {
	case !known:
		return nil, bad(fmt.Sprintf("unknown protocol %q", in.Protocol), "there are postgres and ssh")
	case in.Effect == Ask:
		return nil, bad("nobody is asked about a login", "write it in an allow or a deny rule")
	case in.Tunnel:
		return nil, bad("a tunnel is never read", "leave out tls: tunnel, or protocol")
	case in.Methods != nil || in.Paths != nil || in.Headers != nil || in.Query != nil || in.Bytes != 0:
		return nil, bad("a rule speaks of HTTP requests or of another protocol, not of both", "write two rules")
	case in.Protocol != SSH && ofSSH:
		return nil, bad("repositories, git, commands, identity and host_keys are SSH's",
			"leave them out, or write protocol: ssh")
	case in.Protocol == SSH && len(in.Databases) > 0:
		return nil, bad("SSH knows no databases", "leave them out")
	}
	for _, list := range [][]string{in.Users, in.Databases, in.Repositories, in.Git, in.Commands, in.HostKeys} {
		if list != nil && len(list) == 0 {
			return nil, bad("an empty list in a rule about logins fits none", "leave it out for every one")
		}
		if slices.Contains(list, "") {
			return nil, bad("an empty name in a rule about logins", "")
		}
	}
	if name := in.Identity; name != "" && name != "agent" && !strings.HasPrefix(name, "agent:") &&
		!strings.HasPrefix(name, "~/") && name[0] != '/' {
		return nil, bad(fmt.Sprintf("identity: %q is nothing that logs in", name),
			"agent, agent:FINGERPRINT, or a path such as ~/.ssh/id_ed25519")
	}
	switch {
	case in.Use != "" && in.Identity == "":
		return nil, bad("use says whether a person is asked before an identity signs, and the rule names none",
			"identity: agent")
	case in.Use == "deny":
		return nil, bad("an identity that is denied signs nothing", "leave out identity, or write use: ask")
	}
	for _, text := range in.HostKeys {
		if !isHostKey(text) {
			return nil, bad(fmt.Sprintf("host_keys: %q is no host key", text),
				"a line of ssh-keyscan less its first word: ssh-ed25519 AAAA...")
		}
	}
	m := &loginMatcher{
		protocol: in.Protocol, users: slices.Sorted(slices.Values(in.Users)),
		databases: slices.Sorted(slices.Values(in.Databases)),
		commands:  slices.Sorted(slices.Values(in.Commands)), git: slices.Sorted(slices.Values(in.Git)),
		identity: in.Identity, askFirst: in.Use == "ask", hostKeys: slices.Clone(in.HostKeys),
	}
	if err := m.compileRuns(in, bad); err != nil {
		return nil, err
	}
	if in.Ports == nil {
		in.Ports = []uint16{port}
	}
	return m, nil
}

// isHostKey tells the form of a public key: its type and, in base64, a text that
// begins with that (RFC 4253 6.6).
func isHostKey(text string) bool {
	words := strings.Fields(text)
	if len(words) < 2 {
		return false
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	return err == nil && len(blob) > 4+len(words[0]) && string(blob[4:4+len(words[0])]) == words[0]
}

// compileRuns reads what a rule says of what is to run.
func (m *loginMatcher) compileRuns(in *Rule, bad func(msg, hint string) error) error {
	for _, verb := range in.Git {
		if verb != GitFetch && verb != GitPush {
			return bad(fmt.Sprintf("git: %q is nothing that git does by SSH", verb), "there are fetch and push")
		}
	}
	switch {
	case len(in.Commands) > 0 && len(in.Repositories)+len(in.Git) > 0:
		return bad("a rule speaks of commands or of git's repositories, not of both", "write two rules")
	case in.Effect == Deny && len(in.Commands) > 0:
		return bad("a deny of a command is got round by another spelling",
			"name what is allowed: what no rule names is denied")
	case in.Effect == Deny && (in.Identity != "" || len(in.HostKeys) > 0):
		return bad("identity and host_keys say how an allowed login goes on", "write them in an allow rule")
	}
	for _, text := range in.Repositories {
		r, err := parseRepository(text)
		if err != nil {
			return bad(err.Error(), `such as "acme/**", or "/srv/git/*" from the root`)
		}
		m.repositories = append(m.repositories, r)
	}
	return nil
}

// settleLogin puts what rules say of logins where the order of decision looks
// for it, and gives the protocol in which a connection must say who wants what;
// empty where nothing depends on that.
func (f *found) settleLogin() string {
	allow := f.login[tierAllow]
	if allow == nil {
		allow = f.login[tierPerson]
	}
	narrows := allow != nil && (f.plain == nil || f.plain.rank < allow.rank)
	if narrows {
		f.plain = f.said
	}
	switch {
	case f.login[tierForbid] != nil:
		return f.login[tierForbid].login.protocol
	case narrows && f.best[tierPerson] == nil:
		return allow.login.protocol
	}
	return ""
}

// loginHints are the words that allow one login.
func loginHints(a authority.Authority, l *reading.Login, near *loginMatcher) []string {
	words := fmt.Sprintf("%s, protocol: %s, users: [%q]", allowing.Target(a), l.Protocol, l.User)
	switch {
	case l.Protocol == Postgres:
		words += fmt.Sprintf(", databases: [%q]", l.Database)
	case l.Repository != "":
		words += fmt.Sprintf(", repositories: [%q], git: [%s]", l.Repository, l.Git())
	case l.Command != "":
		words += fmt.Sprintf(", commands: [%q]", l.Command)
	}
	if near != nil && near.identity != "" {
		words += fmt.Sprintf(", identity: %q", near.identity)
	}
	// What the near rule says of the server and of who signs holds for this one too.
	if near != nil && near.askFirst {
		words += ", use: ask"
	}
	if near != nil && len(near.hostKeys) > 0 {
		keys := make([]string, len(near.hostKeys))
		for i, key := range near.hostKeys {
			keys[i] = strconv.Quote(key)
		}
		words += ", host_keys: [" + strings.Join(keys, ", ") + "]"
	}
	return []string{"in config.yaml: proxy: {allow: [{" + words + "}]}"}
}
