package guardian

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
	maxShown = 2 << 10
	// maxRecords bounds one answer; maxLooked how many records are looked at
	// for it.
	maxRecords = 2000
	maxLooked  = 100_000
)

// recorded is an event for a screen.
func recorded(e audit.Event) api.Record {
	text := func(s string) string { return termsafe.Text(termsafe.Clip(s, maxShown)) }
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

// wanted is what one reader of the record asks for.
type wanted struct {
	audit.Filter
	kinds         []string
	text          string
	until         time.Time
	before, after uint64
	limit         int
}

func wantedOf(r *http.Request) (wanted, error) {
	q := r.URL.Query()
	w := wanted{
		Filter: audit.Filter{Session: q.Get("session"), Verdict: q.Get("verdict")},
		text:   strings.ToLower(q.Get("text")),
		limit:  500,
	}
	if q.Get("kind") != "" {
		w.kinds = strings.Split(q.Get("kind"), ",")
	}
	for _, k := range w.kinds {
		if !slices.Contains(audit.Kinds(), k) {
			return w, api.BadRequest("read the record: there is no kind %q", k)
		}
	}
	for name, into := range map[string]*time.Time{"since": &w.Since, "until": &w.until} {
		if q.Get(name) == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, q.Get(name))
		if err != nil {
			return w, api.BadRequest("read the record: %s: want a time such as 2026-01-31T12:00:00Z", name)
		}
		*into = at
	}
	for name, into := range map[string]*uint64{"before": &w.before, "after": &w.after} {
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
		w.limit = n
	}
	return w, nil
}

// fits reports whether e is wanted, besides what the Filter says.
func (w wanted) fits(e audit.Event) bool {
	switch {
	case len(w.kinds) > 0 && !slices.Contains(w.kinds, e.Kind):
	case !w.until.IsZero() && e.Time.After(w.until):
	case w.text != "" && !strings.Contains(strings.ToLower(strings.Join([]string{
		e.Session, e.Project, e.Agent, e.Kind, e.Action, e.Resource, e.Rule, e.Reason, e.Host, e.Method, e.Path,
	}, "\n")), w.text):
	default:
		return true
	}
	return false
}

// getAudit reads the record backwards. The filter is asked here and not by the
// reader, so that what is looked at has a bound too.
func (g *guardian) getAudit(_ http.ResponseWriter, r *http.Request) (any, error) {
	w, err := wantedOf(r)
	if err != nil {
		return nil, err
	}
	out := api.Records{Records: []api.Record{}}
	looked := 0
	g.records.Flush()
	for e, err := range audit.Back(AuditDir(g.o.Dirs), audit.Filter{Since: w.Since}) {
		if looked++; err != nil {
			out.Bad++
			continue
		}
		if e.Seq <= w.after || r.Context().Err() != nil {
			break
		}
		if w.before > 0 && e.Seq >= w.before {
			looked-- // what was seen is skipped, however much it is
			continue
		}
		if looked > maxLooked || len(out.Records) == w.limit {
			out.More, out.Next = true, e.Seq+1
			break
		}
		if w.Match(e) && w.fits(e) {
			out.Records = append(out.Records, recorded(e))
		}
	}
	return out, nil
}
