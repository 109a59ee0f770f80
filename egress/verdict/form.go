package verdict

import "time"

// A Form refuses a request for its form, or by a bound. It is an error.
type Form struct {
	Status int
	Reason string
	Detail string // the evidence; may hold hostile bytes, quoted
	// Of a bound: its name, what would widen it, when to try again.
	Rule  string
	Place string // where the rule stands, if it is in a file
	Hints []string
	Retry time.Duration
}

func (e *Form) Error() string { return e.Reason }

// RefusedBy fills in what a bound or the form of a request says.
func (f *Flow) RefusedBy(form *Form) {
	f.Status, f.Reason, f.Detail = form.Status, form.Reason, form.Detail
	f.Rule, f.Place, f.Hints, f.Retry = form.Rule, form.Place, form.Hints, form.Retry
}
