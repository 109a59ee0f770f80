package policy

import (
	"cloister/internal/authority"
	"cloister/policy/allowing"
)

// withAskHints adds the words for a destination that an ask rule names: the
// flag works, since a person's word for the session stands before ask rules;
// an allow rule in a file would not.
func withAskHints(v Verdict, a authority.Authority) Verdict {
	v.Hints = []string{"cloister run --allow " + allowing.Flag(a) + " -- CMD"}
	if s := v.Origin.String(); s != "" {
		v.Hints = append(v.Hints, "to allow it for good, make the ask rule at "+s+" an allow rule")
	}
	return v
}

// refusedHints say how to take a remembered answer back.
func refusedHints(r *rule) []string {
	hints := []string{"take the answer back: cloister approvals list --all names it, " +
		"cloister approvals undo ID removes it"}
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
