package policy

import (
	"fmt"
	"slices"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/urlpath"
)

// Login is what a connection of a protocol other than HTTP says at its beginning:
// who wants what.
type Login struct {
	Protocol string
	User     string
	Database string
}

func (l Login) String() string {
	return fmt.Sprintf("%s user %q database %q", l.Protocol, l.User, l.Database)
}

// Postgres is the protocol of PostgreSQL.
const Postgres = "postgres"

// Protocols are those that rules can speak of, with the port that each means.
func Protocols() map[string]uint16 { return map[string]uint16{Postgres: 5432} }

// loginMatcher is the part of a rule that speaks of logins. What is empty fits
// every one.
type loginMatcher struct {
	protocol  string
	users     []string
	databases []string
}

func (m *loginMatcher) match(l *Login) bool {
	return l.Protocol == m.protocol && fitsAny(m.users, l.User) && fitsAny(m.databases, l.Database)
}

func fitsAny(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return urlpath.Wild(p, text) })
}

// words are the matcher in a rule's name, which is also its identity.
func (m *loginMatcher) words() string {
	out := []string{m.protocol}
	if len(m.users) > 0 {
		out = append(out, "user "+strings.Join(m.users, ","))
	}
	if len(m.databases) > 0 {
		out = append(out, "database "+strings.Join(m.databases, ","))
	}
	return strings.Join(out, " ")
}

// compileLogin reads what a rule says of logins; nil where it says nothing.
func compileLogin(in *Rule) (*loginMatcher, error) {
	bad := func(msg, hint string) error { return syntaxError(in.Origin, msg, hint) }
	if in.Protocol == "" {
		if len(in.Users)+len(in.Databases) > 0 {
			return nil, bad("users and databases belong to a protocol", "write protocol: postgres")
		}
		return nil, nil
	}
	port, known := Protocols()[in.Protocol]
	switch {
	case !known:
		return nil, bad(fmt.Sprintf("unknown protocol %q", in.Protocol), "there is postgres")
	case in.Effect == Ask:
		return nil, bad("nobody is asked about a login", "write it in an allow or a deny rule")
	case in.Tunnel:
		return nil, bad("a tunnel is never read", "leave out tls: tunnel, or protocol")
	case in.Methods != nil || in.Paths != nil || in.Headers != nil || in.Query != nil || in.Bytes != 0:
		return nil, bad("a rule speaks of HTTP requests or of another protocol, not of both", "write two rules")
	}
	for _, list := range [][]string{in.Users, in.Databases} {
		if slices.Contains(list, "") {
			return nil, bad("an empty name of a user or a database", "")
		}
	}
	if in.Ports == nil {
		in.Ports = []uint16{port}
	}
	m := &loginMatcher{protocol: in.Protocol, users: slices.Clone(in.Users), databases: slices.Clone(in.Databases)}
	slices.Sort(m.users)
	slices.Sort(m.databases)
	return m, nil
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
func loginHints(a authority.Authority, l *Login) []string {
	return []string{fmt.Sprintf("in config.yaml: proxy: {allow: [{%s, protocol: %s, users: [%q], databases: [%q]}]}", yamlTarget(a), l.Protocol, l.User, l.Database)}
}
