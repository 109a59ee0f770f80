package inject

import (
	"fmt"

	"cloister/egress/verdict"
)

// A Foreign is a placeholder that this session does not have.
type Foreign struct {
	Name, Core string
	Project    string // empty: this session's own, of a secret that it has not got
}

// words say whose it is, and what to do.
func (f *Foreign) words() (why string, hints []string) {
	if f.Project != "" {
		return "it is of the project " + f.Project + ", and is worth nothing in another",
			[]string{"a session of this project has one of its own: bind the secret here, and log in again inside"}
	}
	return "this session does not have that secret",
		[]string{"on the host: cloister secret show " + f.Name,
			"a session that is started once it is set and bound takes the same placeholder again"}
}

// stale refuses a placeholder that this session does not have, by its name.
func (e *edit) stale(u Use, f *Foreign) error {
	u.Name = f.Name
	why, hints := f.words()
	if (u.Place == "body" || u.Place == inFrame) && e.used != "" {
		return e.s.judge.RecordUse(e.ctx, u, false, "not swapped, and passed on: "+why)
	}
	if err := e.s.judge.RecordUse(e.ctx, u, true, why); err != nil {
		return err
	}
	return &verdict.Refused{Verdict: verdict.Answer{
		Effect: "deny", Rule: "secret " + f.Name, Hints: hints,
		Reason: fmt.Sprintf("a placeholder of the secret %s in the %s: %s", f.Name, u.Place, why),
	}}
}
