package policy

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"cloister/internal/authority"
	"cloister/internal/urlpath"
)

// allowHints are the words that allow a destination which no rule names: the
// flag for this session, the lines for good. They are made at the moment of
// the refusal; only allowed traffic has to be free of allocations.
func allowHints(a authority.Authority) []string {
	addr, isAddr := a.Addr()
	if isAddr && !public(addr) {
		// A private address is reached only by a name of the person's.
		return []string{`by a name of yours, in config.yaml: proxy: {hosts: {NAME: "` + a.String() + `"}, allow: [{domain: NAME}]}`}
	}
	return []string{"cloister run --allow " + flagTarget(a) + " -- CMD", yamlAllow(a)}
}

// requestHints are the words that allow one request: the lines that allow no
// more than it, and the flag, which allows every request for this session.
func requestHints(a authority.Authority, q *HTTP) []string {
	session := "or every request for one session: cloister run --allow " + flagTarget(a) + " -- CMD"
	if both := gitRules(a, q); both != "" {
		return []string{"in config.yaml: proxy: {allow: [" + both + "]}", session}
	}
	line := "in config.yaml: proxy: {allow: [{" + yamlTarget(a)
	if isMethod(q.Method) {
		line += ", methods: [" + q.Method + "]"
	}
	if q.BadPath == nil {
		line += ", paths: [" + strconv.Quote(globOf(q.Path)) + "]"
	}
	return []string{line + "}]}", session}
}

// gitRules are the two requests of which git makes one fetch or push: the words for
// the first alone would end in a refusal of the second.
func gitRules(a authority.Authority, q *HTTP) string {
	if q.BadPath != nil {
		return ""
	}
	path := q.Path.String()
	for _, service := range []string{"git-upload-pack", "git-receive-pack"} {
		base, is := strings.CutSuffix(path, "/info/refs")
		is = is && q.Method == "GET" && q.Query == "service="+service
		if !is {
			base, is = strings.CutSuffix(path, "/"+service)
			is = is && q.Method == "POST"
		}
		if !is || globOf(q.Path) != path {
			continue
		}
		return "{" + yamlTarget(a) + ", methods: [GET], paths: [" + strconv.Quote(base+"/info/refs") + "], query: {service: " + service + "}}, {" +
			yamlTarget(a) + ", methods: [POST], paths: [" + strconv.Quote(base+"/"+service) + "]}"
	}
	return ""
}

// globOf is the pattern that only this path fits; a star of its own fits more,
// and a pattern cannot say what of it is meant, nor what is no text.
func globOf(p urlpath.Path) string {
	text := p.String()
	if _, err := urlpath.ParseGlob(text); err != nil || !utf8.ValidString(text) {
		return "/**"
	}
	return text
}

// flagTarget is DOMAIN[:PORT] as --allow takes it.
func flagTarget(a authority.Authority) string {
	if !isDefaultPort(a.Port()) {
		return a.String()
	}
	if addr, ok := a.Addr(); ok && addr.Is6() {
		return "[" + a.Host() + "]"
	}
	return a.Host()
}

// yamlAllow is a whole config.yaml, so that it can be pasted as it is.
func yamlAllow(a authority.Authority) string {
	return "or for good, in config.yaml: proxy: {allow: [{" + yamlTarget(a) + "}]}"
}

// yamlTarget is the host of a rule, with its port where that must be said.
func yamlTarget(a authority.Authority) string {
	key, value := "domain: ", a.Host()
	if addr, ok := a.Addr(); ok {
		key, value = "cidr: ", a.Host()+"/"+strconv.Itoa(addr.BitLen())
		if addr.Is6() {
			value = `"` + value + `"`
		}
	}
	if isDefaultPort(a.Port()) {
		return key + value
	}
	return key + value + ", ports: [" + strconv.Itoa(int(a.Port())) + "]"
}

// public reports whether an address may work at all when a rule allows it. It
// only chooses the hint; what is forbidden is the egress room's to say.
func public(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate()
}

// withAskHints adds the words for a destination that an ask rule names: the
// flag works, since a person's word for the session stands before ask rules;
// an allow rule in a file would not.
func withAskHints(v Verdict, a authority.Authority) Verdict {
	v.Hints = []string{"cloister run --allow " + flagTarget(a) + " -- CMD"}
	if s := v.Origin.String(); s != "" {
		v.Hints = append(v.Hints, "to allow it for good, make the ask rule at "+s+" an allow rule")
	}
	return v
}

// refusedHints say how to take a remembered answer back.
func refusedHints(r *rule) []string {
	hints := []string{"take the answer back: cloister approvals list --all names it, cloister approvals undo ID removes it"}
	if r.origin.File != "" {
		hints = append(hints, "or remove it from "+r.origin.String())
	}
	return hints
}

// forbidHints say the only thing that helps: no flag or rule overrides a deny.
func forbidHints(r *rule, what string) []string {
	if r.origin.File == "" && r.origin.Source != "" {
		return []string{"leave out " + r.origin.Source + " " + what + "; nothing overrides a deny"}
	}
	if s := r.origin.String(); s != "" {
		return []string{"remove or narrow the deny rule for " + what + " at " + s + "; nothing overrides a deny"}
	}
	return []string{"remove or narrow the deny rule for " + what + "; nothing overrides a deny"}
}
