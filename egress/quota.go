package egress

import (
	"net/http"
	"strconv"
	"strings"

	"cloister/egress/internal/errtext"
	"cloister/egress/internal/quota"
	"cloister/egress/verdict"
)

// A Quota bounds what one session may do, whatever rules allow.
type Quota = quota.Bounds

// Usage is what a session has used.
type Usage = quota.Usage

// SetQuota puts q in the place of the Quota that was. What was counted stays.
func (e *Engine) SetQuota(q Quota) { e.quota.Set(q) }

// Quota is the one in force.
func (e *Engine) Quota() Quota { return e.quota.Bounds() }

// Usage tells what the session has used so far.
func (e *Engine) Usage() Usage { return e.quota.Usage() }

// overBound is a bound that was reached, for the program.
func overBound(e quota.Error) *verdict.Form {
	return &verdict.Form{Status: e.Status, Reason: e.Reason, Rule: e.Rule, Hints: e.Hints, Retry: e.Retry}
}

func newQuota(b Quota, names int) *quota.Counter {
	return quota.New(b, names, func(e quota.Error) error { return overBound(e) })
}

// bound is the most that a body may hold: the rule's word or the session's. length
// is what it says that it holds, if it does.
func (e *Engine) bound(v verdict.Verdict, length int64) (int64, *verdict.Form) {
	own := e.quota.Bounds().RequestBytes
	switch {
	case v.MaxBytes > 0 && (own == 0 || v.MaxBytes <= own):
		return v.MaxBytes, ruled(v, length)
	case own == 0:
		return 0, nil
	}
	return own, overBound(quota.Over(http.StatusRequestEntityTooLarge, "max_request_bytes",
		"a body of more than "+strconv.FormatInt(own, 10)+" bytes",
		"max_request_bytes: "+strconv.FormatInt(errtext.Enough(own, length), 10)))
}

// ruled refuses a body by the rule's word.
func ruled(v verdict.Verdict, length int64) *verdict.Form {
	return &verdict.Form{Status: http.StatusRequestEntityTooLarge, Rule: v.Rule, Place: v.Place,
		Reason: "a body of more than " + strconv.FormatInt(v.MaxBytes, 10) + " bytes, the most that the rule \"" + v.Rule +
			"\" allows",
		Hints: []string{strings.TrimSpace("in the rule at "+v.Place) + " write bytes: " +
			strconv.FormatInt(errtext.Enough(v.MaxBytes, length), 10)},
	}
}
