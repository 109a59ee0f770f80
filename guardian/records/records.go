// Package records is what one reader of the record asks the guardian for, and a record as
// screens show it.
//
// The promise: an answer is bounded, and no text in it steers a terminal.
//
// It reads no record: the guardian does.
//
// Most readers want [QueryOf].
package records

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/termsafe"
)

const (
	// maxShown bounds each text of a record on a screen, in bytes.
	MaxShown = 2 << 10
	// maxRecords bounds one answer; maxLooked how many records are looked at
	// for it.
	maxRecords = 2000
	MaxLooked  = 100_000
)

// Shown is an event for a screen.
func Shown(e audit.Event) api.Record {
	text := func(s string) string { return termsafe.Text(termsafe.Clip(s, MaxShown)) }
	return api.Record{
		Seq: e.Seq, Time: e.Time, Session: text(e.Session), SessionID: text(e.SessionID), Project: text(e.Project),
		Agent: text(e.Agent),
		Kind:  text(e.Kind), Action: text(e.Action), Resource: text(e.Resource), Verdict: text(e.Verdict),
		Rule: text(e.Rule), Reason: text(e.Reason), Policy: text(e.Policy),
		Host: text(e.Host), Port: e.Port, Via: text(e.Via), BytesUp: e.BytesUp, BytesDown: e.BytesDown,
		DurationMS: e.DurationMS,
		Method:     text(e.Method), Path: text(e.Path), Status: e.Status, Digest: text(e.Digest), PID: e.PID,
		ExitStatus: e.ExitStatus,
	}
}

// Query is what one reader of the record asks for.
type Query struct {
	audit.Filter
	Kinds         []string
	Text          string
	Until         time.Time
	Before, After uint64
	Limit         int
}

func QueryOf(r *http.Request) (Query, error) {
	q := r.URL.Query()
	w := Query{
		Filter: audit.Filter{Session: q.Get("session"), Verdict: q.Get("verdict")},
		Text:   strings.ToLower(q.Get("text")),
		Limit:  500,
	}
	if q.Get("kind") != "" {
		w.Kinds = strings.Split(q.Get("kind"), ",")
	}
	for _, k := range w.Kinds {
		if !slices.Contains(audit.Kinds(), k) {
			return w, api.BadRequest("read the record: there is no kind %q", k)
		}
	}
	for name, into := range map[string]*time.Time{"since": &w.Since, "until": &w.Until} {
		if q.Get(name) == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, q.Get(name))
		if err != nil {
			return w, api.BadRequest("read the record: %s: want a time such as 2026-01-31T12:00:00Z", name)
		}
		*into = at
	}
	for name, into := range map[string]*uint64{"before": &w.Before, "after": &w.After} {
		if q.Get(name) == "" {
			continue
		}
		n, err := strconv.ParseUint(q.Get(name), 10, 64)
		if err != nil {
			return w, api.BadRequest("read the record: %s: want a record's number", name)
		}
		*into = n
	}
	if q.Get("limit") != "" {
		n, err := strconv.Atoi(q.Get("limit"))
		if err != nil || n < 1 || n > maxRecords {
			return w, api.BadRequest("read the record: limit: want a number from 1 to %d", maxRecords)
		}
		w.Limit = n
	}
	return w, nil
}

// Fits reports whether e is wanted, besides what the Filter says.
func (w Query) Fits(e audit.Event) bool {
	switch {
	case len(w.Kinds) > 0 && !slices.Contains(w.Kinds, e.Kind):
	case !w.Until.IsZero() && e.Time.After(w.Until):
	case w.Text != "" && !strings.Contains(strings.ToLower(strings.Join([]string{
		e.Session, e.Project, e.Agent, e.Kind, e.Action, e.Resource, e.Rule, e.Reason, e.Host, e.Method, e.Path,
	}, "\n")), w.Text):
	default:
		return true
	}
	return false
}
