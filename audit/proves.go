package audit

import (
	"fmt"
	"time"
)

// Proves says in whole sentences what a verification without an error proves, and
// against whom.
func (r Report) Proves() []string {
	if r.Records == 0 {
		return nil
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if len(r.Keys) == 0 {
		say("not keyed: it proves nothing against anybody who can write the files, " +
			"who could have computed every hash again; " +
			"the guardian keys what it records from its next start on")
	} else {
		say("keyed from record %d on by the guardian's %s in %s: nobody without them changed, removed, reordered or cut "+
			"off a record",
			r.Unkeyed+1, counted(len(r.Keys), "key"), r.KeysDir)
		if r.Unkeyed > 0 {
			say("unkeyed until record %d: those are from before there were keys, and only proven not to have changed since "+
				"record %d was written",
				r.Unkeyed, r.Unkeyed+1)
		}
		say("it proves nothing against who can read the keys: this account, and root")
	}
	for _, a := range r.Outside {
		say("anchored in %s at record %d, %s (%s): up to there it holds also against who has the keys, if they cannot "+
			"write there",
			a.Where, a.Seq, a.Time.UTC().Format(time.RFC3339), counted(a.Number, "anchor"))
	}
	if len(r.Outside) == 0 {
		say("not anchored outside: cloister audit anchor stores the head where this account cannot change it")
	}
	if r.Retired > 0 {
		say("%s stood here before and were moved away: their keys are kept in %s", counted(r.Retired, "record folder"),
			r.KeysDir)
	}
	return out
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
