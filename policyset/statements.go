package policyset

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"cloister/api"
	"cloister/host/resolve"
	"cloister/policy"
	"cloister/sandbox"
	"cloister/sandbox/judge"
)

// StatementsOf are a snapshot's statements, with the words that accept those that
// nothing keeps.
func StatementsOf(s *policy.Snapshot) (list []api.Statement, residue []string) {
	residue = []string{}
	available := sync.OnceValue(judge.Available) // it may ask root's service, and make a control group
	for _, st := range s.Statements() {
		a := api.Statement{
			Rule: st.Rule, File: st.Origin.File, Line: st.Origin.Line, Column: st.Origin.Column,
			Effect: st.Effect.String(), Actions: st.Actions, Resources: st.Resources,
			Hold: st.Hold.String(), By: st.By, Why: st.Why,
		}
		if st.Hold == policy.InKernel {
			if err := available(); err != nil {
				a.Hold, a.By = policy.Unkept.String(), ""
				a.Why += "; the kernel could, in native and docker, but here it does not: " + err.Error()
				if u, ok := errors.AsType[*sandbox.Unsupported](err); ok && u.Fix != "" {
					a.Why += " (" + u.Fix + ")"
				}
			} else {
				a.By, a.Why = a.By+", in "+levels(), ""
			}
		}
		if a.Hold == policy.Unkept.String() {
			a.Residue = "residue:" + st.Residue()
			residue = append(residue, a.Residue)
		}
		list = append(list, a)
	}
	return list, residue
}

// levels are those whose sessions the kernel judges for this user.
func levels() string {
	if judge.AvailableToEngine() == nil {
		return "native and docker"
	}
	return "native"
}

// Check is what the configuration in dir, with more Cedar files, comes to. The
// error is what is wrong with it; the answer has it too.
func Check(dir, home string, host resolve.Now, more []api.CedarFile) (api.PolicyCheck, error) {
	wrong := func(err error) (api.PolicyCheck, error) {
		return api.PolicyCheck{Problems: Problems(err), Residue: []string{}}, err
	}
	l, err := Load(dir, home, host)
	if err != nil {
		return wrong(err)
	}
	s := l.base
	if len(more) > 0 {
		if s, err = derive(l, SessionRules{Cedar: more}, nil); err != nil {
			return wrong(fmt.Errorf("load policy: %w", err))
		}
	}
	c := api.PolicyCheck{OK: true, Digest: s.Digest()}
	for _, n := range s.Warnings() {
		c.Notices = append(c.Notices, fmt.Sprintf("%s: %s", n.Origin, n.Msg))
	}
	c.Statements, c.Residue = StatementsOf(s)
	return c, nil
}

// saidAtMost are the statements that one refusal names.
const saidAtMost = 10

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

// Holds refuses a session in which a statement of a Cedar file would not be kept
// and no one has accepted that by its name. What the view keeps, whoever builds
// the cloister has said.
func Holds(s *policy.Snapshot, accepted, closed []string) error {
	var open []policy.Statement
	kept, given := setOf(closed), setOf(accepted)
	for _, st := range s.Statements() {
		switch {
		case st.Hold > policy.InView, st.Hold != policy.Unkept && kept[st.Rule], given[st.Residue()]:
		default:
			open = append(open, st)
		}
	}
	if len(open) == 0 {
		return nil
	}
	e := &api.Error{Status: http.StatusUnprocessableEntity, Code: api.CodePolicy}
	for i, st := range open {
		if i == saidAtMost {
			e.Hints = append(e.Hints, fmt.Sprintf("and %d more, which cloister policy check lists", len(open)-i))
			break
		}
		why := st.Why
		if st.Hold == policy.InView {
			why = cmp.Or(st.Why,
				"the view that was made does not keep it: it is another one's, or the policy has changed meanwhile")
		}
		text := st.Origin.String() + ": " + verbOf(st.Effect) + " of " + strings.Join(st.Actions, ", ") +
			" is not enforced: " + why
		if i == 0 {
			e.Message = "open session: " + text
		} else {
			e.Hints = append(e.Hints, "and "+text)
		}
		e.Hints = append(e.Hints, "change it, or go on without it: --accept residue:"+st.Residue())
	}
	return e
}

// verbOf is an effect in Cedar's words.
func verbOf(e policy.Effect) string {
	switch e {
	case policy.Deny:
		return "forbid"
	case policy.Ask:
		return "@ask permit"
	case policy.Allow:
	}
	return "permit"
}
