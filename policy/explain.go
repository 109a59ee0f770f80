package policy

import (
	"fmt"
	"slices"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/source"
)

// Explanation is a verdict with everything that was weighed.
type Explanation struct {
	Request Request
	// Verdict is what the session gets, in its mode; Enforced is what enforce
	// mode gives.
	Verdict, Enforced Verdict
	// Matches are the rules that name the destination, in the order of
	// decision; the first without a Note decides.
	Matches []Match
}

// Match is one rule that names the destination.
type Match struct {
	Effect    Effect
	Rule      string
	Origin    source.Position
	Reason    string
	Decides   bool
	WrongPort bool // it names the host, but not this port
	// Note says why a rule that names the destination has no say; empty for one
	// that has.
	Note string
}

// Explain judges a request as Decide does, and says why: for `cloister policy
// explain`. Unlike Decide it is made for people, not for speed.
func Explain(s *Snapshot, r Request) Explanation {
	e := Explanation{Request: r, Verdict: Decide(s, r)}
	e.Enforced = e.Verdict
	if s == nil || !r.Authority.IsValid() {
		return e
	}
	e.Enforced = s.judge(r)
	e.Matches = s.matches(r)
	for i := range e.Matches {
		m := &e.Matches[i]
		if m.Note == "" && m.Rule == e.Enforced.Rule && m.Origin == e.Enforced.Origin {
			m.Decides = true
			break
		}
	}
	return e
}

func (s *Snapshot) matches(r Request) []Match {
	var all []*rule
	f := found{all: &all, asked: r.Login}
	if r.Action == HTTPRequest {
		f.http = &r.HTTP
	}
	for _, ix := range s.layers {
		ix.naming(r.Authority, &f)
	}
	slices.SortFunc(all, func(a, b *rule) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	var policies []*cedarPolicy
	if s.cedar != nil {
		policies = s.cedar.matching(r)
	}
	var out, wrong []Match
	for t := range tiers {
		for _, x := range all {
			if x.tier != t {
				continue
			}
			m := Match{Effect: t.effect(), Rule: x.name, Origin: x.origin, Reason: x.verdict.Reason, Note: f.note(x, r)}
			if x.atPort(r.Authority.Port()) {
				out = append(out, m)
				continue
			}
			m.WrongPort, m.Reason = true, x.elsewhere
			wrong = append(wrong, m)
		}
		for _, p := range policies {
			if p.tier == t {
				out = append(out, Match{Effect: t.effect(), Rule: p.verdict.Rule, Origin: p.verdict.Origin,
					Reason: p.verdict.Reason})
			}
		}
	}
	return append(out, wrong...)
}

// note is why a rule has no say in a request.
func (f *found) note(x *rule, r Request) string {
	switch {
	case !x.atPort(r.Authority.Port()):
		return "another port"
	case x.login != nil && f.asked == nil:
		return "judges each login"
	case x.login != nil && !x.login.match(f.asked, x.tier.effect()):
		return "another login"
	case x.login != nil:
		return ""
	case x.request == nil && x.tier == tierAllow && !f.stands():
		return "a more exact rule speaks of requests"
	case x.request == nil:
		return ""
	case f.http == nil:
		if x == f.some[tierAllow] || f.some[tierAllow] == nil && x == f.some[tierAsk] {
			return ""
		}
		return "judges each request"
	case !x.request.match(f.http, x.tier):
		return x.otherRequest(f.http)
	}
	return ""
}

// String is the explanation as the command prints it.
func (e Explanation) String() string {
	var b strings.Builder
	v := e.Verdict
	fmt.Fprintf(&b, "%s %s\n", v.Effect, e.Request.subject())
	if v.WouldDeny {
		fmt.Fprintf(&b, "  enforce mode would say %s\n", e.Enforced.Effect)
	}
	fmt.Fprintf(&b, "  %s\n", v.Reason)
	if v.Diagnostic != "" {
		fmt.Fprintf(&b, "  %s\n", v.Diagnostic)
	}
	for _, c := range v.Rewrites {
		fmt.Fprintf(&b, "  + %s  %s%s\n", c, c.Rule, parenthesised(c.Origin))
	}
	for _, m := range e.Matches {
		mark := " "
		if m.Decides {
			mark = ">"
		}
		fmt.Fprintf(&b, "  %s %-5s  %s", mark, m.Effect, m.Rule)
		b.WriteString(parenthesised(m.Origin))
		if m.Note != "" {
			b.WriteString("  " + m.Note)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func parenthesised(o source.Position) string {
	if s := o.String(); s != "" {
		return "  (" + s + ")"
	}
	return ""
}

// subject is what is asked about, in a few words.
func (r Request) subject() string {
	if r.Login != nil {
		return r.Login.String() + " at " + r.Authority.String()
	}
	if r.Action != HTTPRequest {
		return r.Authority.String()
	}
	return r.HTTP.Method + " " + r.Authority.String() + r.HTTP.Path.String()
}

// Test is one line of a `cloister policy test` file: what a connection to
// Connect ("host", "host:port") must get or, with HTTP, that request to it.
type Test struct {
	Name, Connect string
	HTTP          *HTTP
	Want          Effect
}

// TestResult is what became of a Test.
type TestResult struct {
	Test    Test
	Verdict Verdict
	Pass    bool
	Err     error // Connect is no destination
}

// RunTests judges each test as enforce mode would, whatever the snapshot's
// mode: a test is about the rules.
func RunTests(s *Snapshot, tests []Test) []TestResult {
	out := make([]TestResult, 0, len(tests))
	for _, t := range tests {
		res := TestResult{Test: t, Verdict: Decide(nil, Request{})}
		a, err := authority.ParseHostPort(t.Connect, 443)
		switch {
		case err != nil:
			res.Err = err
		case s != nil && t.HTTP != nil:
			res.Verdict = s.judge(Request{Action: HTTPRequest, Authority: a, HTTP: *t.HTTP})
		case s != nil:
			res.Verdict = s.judge(Request{Action: NetworkConnect, Authority: a})
		}
		res.Pass = res.Err == nil && res.Verdict.Effect == t.Want
		out = append(out, res)
	}
	return out
}
