// Package allowing writes the words that would allow what was refused.
//
// Promise: pasted where they say, they load and let through what was asked and, where
// a rule can say so, no more. It decides nothing.
//
// Most readers want Destination and Request.
package allowing

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"cloister/internal/authority"
	"cloister/internal/urlpath"
)

// Asked is a request that was refused. Path means nothing where BadPath says that it has
// no one spelling.
type Asked struct {
	Method, Query string
	Path          urlpath.Path
	BadPath       error
}

// IsMethod reports whether a rule can name a method: there are others that can be sent.
func IsMethod(s string) bool { return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == "" }

func isDefaultPort(p uint16) bool { return p == 443 || p == 80 }

// Destination are the words that allow a destination which no rule names: the
// flag for this session, the lines for good. They are made at the moment of
// the refusal; only allowed traffic has to be free of allocations.
func Destination(a authority.Authority) []string {
	addr, isAddr := a.Addr()
	if isAddr && !public(addr) {
		// A private address is reached only by a name of the person's.
		return []string{`by a name of yours, in config.yaml: proxy: {hosts: {NAME: "` + a.String() +
			`"}, allow: [{domain: NAME}]}`}
	}
	return []string{"cloister run --allow " + Flag(a) + " -- CMD", yamlAllow(a)}
}

// Request are the words that allow one request: the lines that allow no
// more than it, and the flag, which allows every request for this session.
func Request(a authority.Authority, q Asked) []string {
	session := "or every request for one session: cloister run --allow " + Flag(a) + " -- CMD"
	if both := gitRules(a, q); both != "" {
		return []string{"in config.yaml: proxy: {allow: [" + both + "]}", session}
	}
	line := "in config.yaml: proxy: {allow: [{" + Target(a)
	if IsMethod(q.Method) {
		line += ", methods: [" + q.Method + "]"
	}
	path := ""
	if q.BadPath == nil {
		path = globOf(q.Path)
		line += ", paths: [" + strconv.Quote(path) + "]"
	}
	if q.BadPath != nil || path == everyPath {
		line = "for every path, since no rule can name this one, " + line
	}
	return []string{line + "}]}", session}
}

// gitRules are the two requests of which git makes one fetch or push: the words for
// the first alone would end in a refusal of the second.
func gitRules(a authority.Authority, q Asked) string {
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
		return "{" + Target(a) + ", methods: [GET], paths: [" + strconv.Quote(base+"/info/refs") + "], query: {service: " +
			service + "}}, {" +
			Target(a) + ", methods: [POST], paths: [" + strconv.Quote(base+"/"+service) + "]}"
	}
	return ""
}

// everyPath is the pattern of all paths.
const everyPath = "/**"

// globOf is the pattern that only this path fits; everyPath where it is no text.
func globOf(p urlpath.Path) string {
	text := urlpath.Escape(p.String())
	if _, err := urlpath.ParseGlob(text); err != nil || !utf8.ValidString(text) {
		return everyPath
	}
	return text
}

// Flag is DOMAIN[:PORT] as --allow takes it.
func Flag(a authority.Authority) string {
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
	return "or for good, in config.yaml: proxy: {allow: [{" + Target(a) + "}]}"
}

// Target is the host of a rule, with its port where that must be said.
func Target(a authority.Authority) string {
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
