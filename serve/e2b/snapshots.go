package e2b

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"cloister/serve"
	"cloister/serve/e2b/answer"
)

func shownSnapshot(s serve.Snapshot) map[string]any {
	names := []string{}
	if s.Name != "" {
		names = append(names, s.Name)
	}
	return map[string]any{"snapshotID": s.ID, "names": names}
}

func (d *Door) snapshot(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	var q struct {
		Name string `json:"name"`
	}
	if err := answer.Read(w, r, &q); err != nil {
		return err
	}
	snap, err := s.Snapshot(r.Context(), q.Name)
	if err == nil {
		answer.JSON(w, http.StatusCreated, shownSnapshot(snap))
	}
	return err
}

func (d *Door) snapshots(w http.ResponseWriter, r *http.Request, t caller) error {
	list, err := d.Host.Snapshots(r.Context(), t.Tenant)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	sandbox, name := q.Get("sandboxID"), q.Get("name")
	out := []map[string]any{}
	for _, s := range list {
		if (sandbox == "" || s.Sandbox == sandbox) && (name == "" || s.Name == name || s.ID == name) {
			out = append(out, shownSnapshot(s))
		}
	}
	answer.JSON(w, http.StatusOK, out)
	return nil
}

func (d *Door) fork(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	var q struct {
		Timeout *int64 `json:"timeout"`
		Count   *int   `json:"count"`
	}
	if err := answer.Read(w, r, &q); err != nil {
		return err
	}
	count := 1
	if q.Count != nil {
		count = *q.Count
	}
	if q.Timeout != nil && (*q.Timeout < 0 || *q.Timeout > maxSeconds) {
		return &serve.BadRequest{What: "timeout: not a number of seconds"}
	}
	made, err := s.Fork(context.WithoutCancel(r.Context()), t.Tenant, count, seconds(q.Timeout, defaultTimeout))
	if err != nil {
		return err
	}
	out := []map[string]any{}
	for _, m := range made {
		if m.Err != nil {
			code, text := answer.StatusOf(m.Err)
			out = append(out, map[string]any{"error": map[string]any{"code": code, "message": text}})
			continue
		}
		out = append(out, map[string]any{"sandbox": d.made(m.Sandbox.Record())})
	}
	answer.JSON(w, http.StatusCreated, out)
	return nil
}

// metrics answers with what the sandbox uses now: nothing is kept of what it used before.
func (d *Door) metrics(w http.ResponseWriter, r *http.Request, t caller) error {
	s, err := d.Host.Get(t.Name, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := []map[string]any{}
	if now := time.Now(); within(r, now) && s.Record().State == serve.Running {
		u, err := s.Usage(r.Context())
		if err != nil {
			return err
		}
		out = append(out, map[string]any{
			"timestamp": u.Time.Format(time.RFC3339), "timestampUnix": u.Time.Unix(),
			"cpuCount": u.CPUs, "cpuUsedPct": u.CPU, "memUsed": u.MemUsed, "memTotal": u.MemTotal, "memCache": 0,
			"diskUsed": u.DiskUsed, "diskTotal": u.DiskTotal,
		})
	}
	answer.JSON(w, http.StatusOK, out)
	return nil
}

// bucket is how exact the times of a query are.
const bucket = 5 * time.Second

// within says whether a query's times include a moment.
func within(r *http.Request, at time.Time) bool {
	q := r.URL.Query()
	for name, before := range map[string]bool{"start": false, "end": true} {
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil || n <= 0 {
			continue
		}
		if limit := time.Unix(n, 0); before && at.After(limit.Add(bucket)) || !before && at.Before(limit.Add(-bucket)) {
			return false
		}
	}
	return true
}
