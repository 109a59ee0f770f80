package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"cloister/internal/urlpath"
)

// Cedar prints the snapshot as Cedar text: each rule with a comment that names
// its source, then the user's files as they are. Loaded as a Cedar file, the
// rules decide the same (but a session's own words lose their place before ask
// rules, for which Cedar has no word). "" for nil.
func (s *Snapshot) Cedar() string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "// policy %s\n// mode %s; what no rule names: %s, of addresses deny\n", s.digest, s.mode, s.unlisted)
	for _, r := range s.rules {
		b.WriteByte('\n')
		r.print(&b, s.narrowing(r))
	}
	if s.rewriters != nil {
		for _, w := range s.rewriters.all {
			w.print(&b)
		}
	}
	for _, f := range s.files {
		fmt.Fprintf(&b, "\n// file %s\n", comment(f.Name))
		b.Write(f.Text)
		if len(f.Text) > 0 && f.Text[len(f.Text)-1] != '\n' {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// narrowing are the rules about requests that take the place of an allow rule
// where they name a host more exactly.
func (s *Snapshot) narrowing(r *rule) []*rule {
	var out []*rule
	if r.tier != tierAllow || r.request != nil {
		return nil
	}
	for _, o := range s.rules {
		if o.tier == tierAllow && o.request != nil && o.rank > r.rank && r.couldName(o) {
			out = append(out, o)
		}
	}
	return out
}

// couldName reports whether some host that o names is r's too.
func (r *rule) couldName(o *rule) bool {
	if r.prefix.IsValid() || o.prefix.IsValid() {
		return r.prefix.IsValid() && o.prefix.IsValid() && r.prefix.Overlaps(o.prefix)
	}
	base := o.pattern.Base()
	return r.pattern.Base() == "" || r.pattern.Base() == base || strings.HasSuffix(base, "."+r.pattern.Base())
}

func (r *rule) print(b *strings.Builder, narrowing []*rule) {
	fmt.Fprintf(b, "// %s", r.name)
	if o := r.origin.String(); o != "" {
		b.WriteString(" — " + comment(o))
	}
	b.WriteByte('\n')
	if r.login != nil {
		fmt.Fprintf(b, "// %s at %s: of logins, for which Cedar has no word\n", r.tier.verb(), comment(r.target()))
		return
	}
	effect := "permit"
	switch r.tier {
	case tierForbid:
		effect = "forbid"
	case tierRefused:
		effect = "forbid"
		b.WriteString("@answer // a person's deny: behind every other forbid\n")
	case tierAsk:
		b.WriteString("@ask\n")
	case tierPerson:
		b.WriteString("@session // stands before ask rules\n")
	case tierAllow, tiers:
	}
	if r.tunnel {
		b.WriteString("@tls(\"tunnel\") // passed on uninspected\n")
	}
	if r.opened {
		b.WriteString("@tls(\"inspect\") // whatever another rule says\n")
	}
	action, condition := actionConnect, r.condition()
	if r.request != nil {
		if r.request.objects != "" {
			fmt.Fprintf(b, "// of requests for objects by %s, for which Cedar has no word\n", r.request.objects)
		}
		if r.request.bytes > 0 {
			fmt.Fprintf(b, "@bytes(\"%d\") // of a request's body at most\n", r.request.bytes)
		}
		action, condition = actionRequest, condition+r.request.condition()
	}
	fmt.Fprintf(b, "%s (principal, action == Action::%q, resource)\nwhen { %s }", effect, action, condition)
	for _, o := range narrowing {
		fmt.Fprintf(b, "\nunless { %s } // %s", o.condition(), comment(o.name))
	}
	if len(narrowing) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(";\n")
}

// condition is what a rule says of requests in Cedar's words.
func (m *matcher) condition() string {
	var b strings.Builder
	if len(m.methods) > 0 {
		quoted := make([]string, len(m.methods))
		for i, method := range m.methods {
			quoted[i] = strconv.Quote(method)
		}
		b.WriteString(" && [" + strings.Join(quoted, ", ") + "].contains(context.method)")
	}
	if len(m.paths) > 0 {
		any := make([]string, len(m.paths))
		for i, g := range m.paths {
			any[i] = globCondition(g)
		}
		b.WriteString(" && (" + strings.Join(any, " || ") + ")")
	}
	for _, h := range m.headers {
		b.WriteString(" && " + tagLike("headers", h.name, h.value))
	}
	for _, k := range m.query {
		b.WriteString(" && " + tagLike("query", k.name, k.value))
	}
	return b.String()
}

// globCondition spells a pattern segment by segment: Cedar's own * would cross
// slashes.
func globCondition(g urlpath.Glob) string {
	head, tail, deep := g.Parts()
	depth := "=="
	if deep {
		depth = ">="
	}
	out := []string{fmt.Sprintf("context.depth %s %d", depth, len(head)+len(tail))}
	for i, part := range head {
		out = append(out, segmentLike(i, part))
	}
	for i, part := range tail {
		out = append(out, segmentLike(i-len(tail), part))
	}
	return strings.Join(out, " && ")
}

// segmentLike is one segment: a star behind a backslash is written so in Cedar, too.
func segmentLike(i int, pattern string) string {
	text := tagLike("segments", strconv.Itoa(i), strings.ReplaceAll(pattern, `\*`, "\x00"))
	return strings.ReplaceAll(text, `\u{0}`, `\*`)
}

func tagLike(of, tag, pattern string) string {
	key := cedarText(tag)
	return fmt.Sprintf("context.%s.hasTag(%s) && context.%s.getTag(%s) like %s", of, key, of, key, cedarText(pattern))
}

// cedarText is a string literal of Cedar; a star keeps its meaning in like.
func cedarText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// condition is the rule's target in Cedar's words. Ports are spelled out, so
// that the text means the same to any reader of Cedar.
func (r *rule) condition() string {
	switch {
	case !r.prefix.IsValid():
		return "resource in [" + hostList(r.pattern.String(), r.ports) + "]"
	case r.prefix.IsSingleIP():
		return "resource in [" + hostList(r.prefix.Addr().String(), r.ports) + "]"
	}
	c := "context has ip && context.ip.isInRange(ip(\"" + r.prefix.String() + "\"))"
	if r.prefix.Bits() == 0 {
		// Cedar's ::/0 holds no IPv4 address; neither does ours.
		c = "context has ip && context.ip." + family(r.prefix) + "()"
	}
	if r.ports != nil {
		c += " && [" + strings.ReplaceAll(portList(r.ports), ",", ", ") + "].contains(context.port)"
	}
	return c
}

func family(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "isIpv4"
	}
	return "isIpv6"
}

func hostList(host string, ports []uint16) string {
	if ports == nil {
		return "Host::\"" + host + "\""
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	var out []string
	for _, p := range ports {
		out = append(out, "Host::\""+host+":"+strconv.Itoa(int(p))+"\"")
	}
	return strings.Join(out, ", ")
}

// comment keeps a name inside its comment.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return '?'
		}
		return r
	}, s)
}
