package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
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
		r.print(&b)
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

func (r *rule) print(b *strings.Builder) {
	fmt.Fprintf(b, "// %s", r.name)
	if o := r.origin.String(); o != "" {
		b.WriteString(" — " + comment(o))
	}
	b.WriteByte('\n')
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
	fmt.Fprintf(b, "%s (principal, action == Action::%q, resource)\nwhen { %s };\n", effect, actionConnect, r.condition())
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
