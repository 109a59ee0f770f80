package verdict

import (
	"errors"
	"net/http"

	"cloister/egress/internal/wire"
)

// A Refused is an Edit's word that the request shall not be made, or that its
// answer shall not be passed on. Any other error is reported as a failure (502).
type Refused struct {
	Verdict Answer // rule, place, reason and hints, given as those of a rule
	Status  int    // 403 unless said
	// Answer, where it is not empty, is what the program receives instead, of that
	// ContentType.
	Answer      []byte
	ContentType string
}

func (e *Refused) Error() string { return e.Verdict.Reason }

// refusedBy is err in the words that a program receives.
func refusedBy(err error) *Refused {
	if r, ok := errors.AsType[*Refused](err); ok {
		return r
	}
	if form, ok := errors.AsType[*Form](err); ok {
		return &Refused{Status: form.Status, Verdict: Answer{Effect: "deny", Reason: form.Reason}}
	}
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
		return &Refused{Status: syntax.Status, Verdict: Answer{Effect: "deny", Reason: syntax.Error()}}
	}
	return &Refused{Status: http.StatusBadGateway, Verdict: Answer{Effect: "deny", Reason: err.Error()}}
}

// Answered is the status that the program receives.
func (e *Refused) Answered() int {
	if e.Status == 0 {
		return http.StatusForbidden
	}
	return e.Status
}
