package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloister/serve/database"
	"cloister/serve/givenup"
	"cloister/serve/tenants"
)

// shown is what other servers learn of a sandbox: what a listing says of it, and nothing that
// opens it.
func shown(r Record) Record {
	return Record{
		ID: r.ID, Tenant: r.Tenant, Template: r.Template, Metadata: r.Metadata,
		Created: r.Created, End: r.End, State: r.State,
	}
}

// Parted gives why this server can be none of several any more, once.
func (h *Host) Parted() <-chan error { return h.parted }

// join begins this server's lease.
func (h *Host) join(ctx context.Context) error {
	if h.Shared == nil {
		return nil
	}
	if err := h.Shared.Join(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// keepLease keeps it until the host closes.
func (h *Host) keepLease() {
	if h.Shared == nil {
		return
	}
	h.Changed() // what was changed while this server was away
	if err := h.Shared.Run(h.ctx, h); err != nil {
		h.parted <- err
	}
}

// holds says that what this server has is still its own.
func (h *Host) holds() error {
	if h.Shared == nil {
		return nil
	}
	return h.Shared.Holds()
}

// enter writes a sandbox down before it is made, if the tenant may have one more of all servers.
func (h *Host) enter(ctx context.Context, t tenants.Tenant, r Record) error {
	if h.Shared == nil {
		return nil
	}
	err := h.holds()
	if err == nil {
		err = h.configure(t)
	}
	if err == nil {
		err = h.Shared.Enter(ctx, t, r.ID, shown(r))
	}
	if _, ok := errors.AsType[*database.Away](err); ok {
		h.strikeSoon(r.ID) // it may have been written, and only the answer is missing
	}
	if over, ok := errors.AsType[*database.Over](err); ok {
		return &Over{over.What}
	}
	if errors.Is(err, tenants.ErrMissing) {
		return &BadRequest{What: "the tenant was removed"}
	}
	return err
}

// note has other servers learn what a sandbox is by now. Where the database is away it learns
// so by a later round: what is done in a sandbox does not wait for it.
func (h *Host) note(s *Sandbox, r Record) {
	if h.Shared == nil || r.State == ended {
		return
	}
	err := h.Shared.Note(context.WithoutCancel(h.ctx), r.Tenant, r.ID, shown(r))
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		delete(h.unknown, s)
	case errors.Is(err, database.ErrLost): // it was being made, or changed, while it became another server's
		delete(h.unknown, s)
		h.wg.Go(func() { h.giveUp(s) })
	default:
		h.unknown[s] = time.Now().Add(retryAfter)
	}
}

// giveUp ends a sandbox that is not this server's any more.
func (h *Host) giveUp(s *Sandbox) {
	h.Log.Info("a sandbox was given up meanwhile", "tenant", s.tenant.Name, "sandbox", s.record.ID)
	h.forget(s) // no request finds it from here on
	err := s.end(context.WithoutCancel(h.ctx), "this server was out of touch, and another gave it up")
	if err != nil && !errors.Is(err, ErrNone) {
		h.Log.Error("end a sandbox that was given up", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
	}
}

// tell lets the database know what it does not know yet.
func (h *Host) tell(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, when := range h.gone {
		if now.Before(when) {
			continue
		}
		delete(h.gone, id)
		h.wg.Go(func() {
			if err := h.strike(context.WithoutCancel(h.ctx), id); err != nil {
				h.strikeSoon(id)
			}
		})
	}
	for s, when := range h.unknown {
		if now.Before(when) {
			continue
		}
		delete(h.unknown, s)
		if h.all[key(s.tenant.Name, s.record.ID)] == s {
			h.wg.Go(func() {
				s.file.Lock()
				defer s.file.Unlock()
				h.note(s, s.Record())
			})
		}
	}
}

// strikeSoon strikes what was not made, as soon as the database can be asked.
func (h *Host) strikeSoon(id string) {
	if h.Shared == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone[id] = time.Now().Add(retryAfter)
}

// strike strikes a sandbox that is over.
func (h *Host) strike(ctx context.Context, id string) error {
	if h.Shared == nil {
		return nil
	}
	if err := h.Shared.Leave(ctx, id); err != nil {
		return fmt.Errorf("strike sandbox %s: %w", id, err)
	}
	return nil
}

// ListAll gives a tenant's sandboxes on all servers, the newest first. What opens them is missing.
func (h *Host) ListAll(ctx context.Context, tenant string) ([]Record, error) {
	if h.Shared == nil {
		return h.List(tenant), nil
	}
	list, err := h.Shared.List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, row := range list {
		r, err := recordOf(row)
		if err != nil {
			h.Log.Error("read a row of the database", "sandbox", row.ID, "error", err)
			continue
		}
		if r.State == Running || r.State == Paused {
			out = append(out, r)
		}
	}
	newestFirst(out)
	return out, nil
}

// recordOf reads a row. Its columns say whose it is, whatever its record says.
func recordOf(row database.Row) (Record, error) {
	var r Record
	if err := json.Unmarshal(row.Record, &r); err != nil {
		return r, err
	}
	r = shown(r)
	r.ID, r.Tenant = row.ID, row.Tenant
	return r, nil
}

// Has says that this server has a sandbox of an ID, or is ending it.
func (h *Host) Has(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.undone {
		if s.record.ID == id {
			return true
		}
	}
	return h.byID[id] != nil
}

// settleRows strikes the rows of sandboxes that an earlier server of this place had and that are gone, gives up
// those that it had taken over and may not have recorded, and ends those that became another server's.
func (h *Host) settleRows(ctx context.Context) error {
	if h.Shared == nil {
		return nil
	}
	list, err := h.Shared.Mine(ctx)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	var lost []database.Row
	for _, row := range list {
		switch {
		case row.Lost:
			lost = append(lost, row)
		case h.Has(row.ID): // one whose end failed is struck when it is over
		default:
			if err := h.strike(ctx, row.ID); err != nil {
				return err
			}
		}
	}
	h.TakenOver(ctx, lost)
	return h.Lapsed(ctx, list)
}

// Lapsed ends what became another server's while this one was out of touch. Those that are being
// made are in no table: their next word to the database is refused, and they end.
func (h *Host) Lapsed(_ context.Context, rows []database.Row) error {
	h.mu.Lock()
	var lost []*Sandbox
	for _, s := range h.all {
		if !slices.ContainsFunc(rows, func(r database.Row) bool { return r.ID == s.record.ID }) {
			lost = append(lost, s)
		}
	}
	h.mu.Unlock()
	for _, s := range lost {
		h.forget(s)
		h.wg.Go(func() { h.giveUp(s) })
	}
	return nil
}

// TakenOver ends, once of all servers, what a server had that is out of touch: its processes are on
// that host, and their record, policy and guardian with them. The lease, whose beats call this, does not wait
// for it.
func (h *Host) TakenOver(ctx context.Context, rows []database.Row) {
	for part := range h.lostRows.Parts(rows) {
		h.wg.Go(func() { h.lostRows.Give(ctx, part) })
	}
}

// giving is what rows are given up by.
func (h *Host) giving() *givenup.List {
	return &givenup.List{Log: h.Log, Strike: h.Shared.Leave,
		Ready: func(tenant string) error {
			t, err := h.Tenants.Latest(tenant)
			if err != nil {
				return err
			}
			return h.configure(t)
		},
		Record: func(ctx context.Context, r database.Row) error {
			return h.Record(ctx, r.Tenant, Act{r.ID, ActLost, "lost", "the server that had it is out of touch"})
		}}
}

// Changed writes the tenants' configurations to where their instances read them.
func (h *Host) Changed() {
	list, err := h.Tenants.List()
	for _, t := range list {
		err = errors.Join(err, h.configure(t))
	}
	if err != nil {
		h.Log.Error("write the configuration of tenants", "error", err)
	}
}

// configure writes one tenant's.
func (h *Host) configure(t tenants.Tenant) error {
	if h.Shared == nil {
		return nil
	}
	return h.Tenants.Write(t)
}
