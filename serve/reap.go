package serve

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"cloister/serve/tenants"
)

// reap ends or pauses what has reached its end.
func (h *Host) reap() {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case now := <-tick.C:
			h.retry(now)
			h.tell(now)
			due, orphans := h.over(now)
			for _, s := range orphans {
				h.wg.Go(func() {
					err := s.end(context.WithoutCancel(h.ctx), "its tenant was removed")
					if err != nil && !errors.Is(err, ErrNone) {
						h.Log.Error("end a sandbox of a removed tenant", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
					}
				})
			}
			if old := h.stale(now); len(old) > 0 {
				h.wg.Go(func() { h.drop(h.ctx, old) })
			}
			for _, s := range due {
				h.wg.Go(func() {
					if err := s.expire(context.WithoutCancel(h.ctx)); err != nil {
						h.Log.Error("end a sandbox whose time is over", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
					}
				})
			}
		}
	}
}

// undone is an end that failed: why it was to be, and when it is tried again.
type undone struct {
	why  string
	when time.Time
}

// retryAfter is how long after an end that failed it is tried again.
const retryAfter = time.Second

// retry tries the ends again that failed.
func (h *Host) retry(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, u := range h.undone {
		if now.Before(u.when) {
			continue
		}
		delete(h.undone, s)
		h.wg.Go(func() {
			if err := s.discard(context.WithoutCancel(h.ctx), u.why); err != nil {
				h.Log.Error("end a sandbox, again", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
			}
		})
	}
}

// over gives the sandboxes whose time is over at a moment, and those whose tenant is removed:
// one that a request was just having made as well.
func (h *Host) over(now time.Time) (due, orphans []*Sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	removed := map[string]bool{} // once for each tenant: every request waits for the lock meanwhile
	for _, s := range h.all {
		was := s.tenant.Name + " " + s.tenant.Created.String()
		gone, known := removed[was]
		if !known {
			gone = h.removed(s.tenant, h.Tenants.Named)
			removed[was] = gone
		}
		switch {
		case gone:
			orphans = append(orphans, s)
		case s.due(now):
			due = append(due, s)
		}
	}
	return due, orphans
}

// removed says that a tenant is no more, or that another has its name. A register that
// cannot be read says nothing.
func (*Host) removed(t tenants.Tenant, look func(name string) (tenants.Tenant, error)) bool {
	now, err := look(t.Name)
	return errors.Is(err, tenants.ErrMissing) || err == nil && !now.Created.Equal(t.Created)
}

// forget takes a sandbox out of the table.
func (h *Host) forget(s *Sandbox) {
	h.mu.Lock()
	delete(h.all, key(s.tenant.Name, s.record.ID))
	if h.byID[s.record.ID] == s {
		delete(h.byID, s.record.ID)
	}
	h.mu.Unlock()
}

// records reads what an earlier server wrote down of a tenant's sandboxes.
func (h *Host) records(tenant string) ([]Record, error) {
	list, err := filepath.Glob(filepath.Join(h.Tenants.Home(tenant), "sandboxes", "*", "record.json"))
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, file := range list {
		r, err := readRecord(file)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
