package policy

import (
	"fmt"
	"slices"
	"strings"

	"cloister/internal/authority"
)

// Explanation is a verdict with everything that was weighed.
type Explanation struct {
	Request Request
	// Verdict is what the session gets, in its mode; Enforced is what enforce
	// mode gives.
	Verdict, Enforced Verdict
	// Matches are the rules that name the destination, in the order of
	// decision; the first that is not WrongPort decides.
	Matches []Match
}

// Match is one rule that names the destination.
type Match struct {
	Effect    Effect
	Rule      string
	Origin    Origin
	Reason    string
	Decides   bool
	WrongPort bool // it names the host, but not this port
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
		if !m.WrongPort && m.Rule == e.Enforced.Rule && m.Origin == e.Enforced.Origin {
			m.Decides = true
			break
		}
	}
	return e
}

func (s *Snapshot) matches(r Request) []Match {
	var all []*rule
	f := found{all: &all}
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
			m := Match{Effect: t.effect(), Rule: x.name, Origin: x.origin, Reason: x.verdict.Reason}
			if x.atPort(r.Authority.Port()) {
				out = append(out, m)
				continue
			}
			m.WrongPort, m.Reason = true, x.elsewhere
			wrong = append(wrong, m)
		}
		for _, p := range policies {
			if p.tier == t {
				out = append(out, Match{Effect: t.effect(), Rule: p.verdict.Rule, Origin: p.verdict.Origin, Reason: p.verdict.Reason})
			}
		}
	}
	return append(out, wrong...)
}

// String is the explanation as the command prints it.
func (e Explanation) String() string {
	var b strings.Builder
	v := e.Verdict
	fmt.Fprintf(&b, "%s %s\n", v.Effect, e.Request.Authority)
	if v.WouldDeny {
		fmt.Fprintf(&b, "  enforce mode would say %s\n", e.Enforced.Effect)
	}
	fmt.Fprintf(&b, "  %s\n", v.Reason)
	if v.Diagnostic != "" {
		fmt.Fprintf(&b, "  %s\n", v.Diagnostic)
	}
	for _, m := range e.Matches {
		mark := " "
		if m.Decides {
			mark = ">"
		}
		fmt.Fprintf(&b, "  %s %-5s  %s", mark, m.Effect, m.Rule)
		if o := m.Origin.String(); o != "" {
			fmt.Fprintf(&b, "  (%s)", o)
		}
		if m.WrongPort {
			b.WriteString("  another port")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Test is one line of a `cloister policy test` file: what a connection to
// Connect ("host", "host:port") must get.
type Test struct {
	Name, Connect string
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
		case s != nil:
			res.Verdict = s.judge(Request{Action: NetworkConnect, Authority: a})
		}
		res.Pass = res.Err == nil && res.Verdict.Effect == t.Want
		out = append(out, res)
	}
	return out
}
