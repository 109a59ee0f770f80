package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloister/config"
	"cloister/secret/vault"
	"cloister/serve/templates"
	"cloister/serve/tenants"
)

// A spare is a sandbox whose session was started before a request for it. No ID finds it,
// and it leaves the list of spares once: for one request of its own tenant, or to be ended.
type spare struct {
	s    *Sandbox
	mark string // what the session was started under
	made time.Time
}

// Bounds of spares: how long one waits for a request, and how many there are of all
// tenants together.
const (
	spareLife = 10 * time.Minute
	maxSpares = 64
	fillAfter = 150 * time.Millisecond
	maxAnew   = 3 // beyond those wanted, that are started in place of ones that could not stay
)

// unused is why a spare is ended.
const unused = "it was started ahead, and no request used it"

// mark changes with all that a session of the tenant keeps from its start: the files of
// the configuration, the vault, the limits, and the tenant that the name stands for.
func (h *Host) mark(t tenants.Tenant) string {
	home := h.Tenants.Home(t.Name)
	// Not the vault's folder: each start of a session notes its placeholders there.
	of := []string{filepath.Join(home, "data", "cloister", "vault", vault.File)}
	if h.Kept != nil {
		of = append(of, h.Kept(h.place(t.Name))...)
	}
	held := make([]int64, 2*len(of))
	for i, name := range of {
		if fi, err := os.Stat(name); err == nil {
			held[2*i], held[2*i+1] = fi.ModTime().UnixNano(), fi.Size()
		}
	}
	files := config.Fingerprint(filepath.Join(home, "config", "cloister"))
	return fmt.Sprintf("%s\n%v\n%v\n%v", files, held, t.Created, t.Limits)
}

// generic says that nothing of a request has a part in how its session is started: its
// variables go to each command, and its files come afterwards.
func (q Request) generic() bool { return q.Made == (templates.Made{}) && q.Network.Usual() }

// lives says that the session of a spare runs.
func (sp *spare) lives() bool {
	sp.s.mu.Lock()
	defer sp.s.mu.Unlock()
	select {
	case <-sp.s.live.Gone:
		return false
	default:
		return !sp.s.ending
	}
}

// take gives a spare that was started under what holds for the tenant now; nil for none.
// It ends the spares that are good for nothing any more, and those for which the limit has
// no room beside the request's own sandbox.
func (h *Host) take(ctx context.Context, t tenants.Tenant, q Request) *spare {
	now := h.mark(t)
	h.mu.Lock()
	var out *spare
	var keep, drop []*spare
	for _, sp := range h.spares[t.Name] {
		switch {
		case sp.mark != now || !sp.lives():
			drop = append(drop, sp)
		case out == nil && q.generic():
			out = sp
		default:
			keep = append(keep, sp)
		}
	}
	if room := max(0, t.Limits.Sandboxes-h.used(t.Name)); len(keep) > room {
		drop, keep = append(drop, keep[room:]...), keep[:room]
	}
	h.spares[t.Name] = keep
	h.mu.Unlock()
	h.drop(ctx, drop)
	return out
}

// give makes a spare the sandbox of a request; nil of nil, and of one that ended meanwhile,
// or that its guardian knows no more. It is recorded first.
func (sp *spare) give(ctx context.Context, r Record) *Sandbox {
	if sp == nil {
		return nil
	}
	r.ID = sp.s.record.ID
	sp.s.mu.Lock()
	live := *sp.s.live
	sp.s.ending = true // from here on the new one looks after the session
	sp.s.mu.Unlock()
	s := &Sandbox{host: sp.s.host, tenant: sp.s.tenant, record: r}
	s.enter(live)
	if err := s.recorded(ctx, ActSandbox, "use", r.Template); err != nil {
		err = errors.Join(err, s.end(context.WithoutCancel(ctx), "it could not be used"))
		s.host.Log.Error("use a sandbox that was started ahead", "tenant", r.Tenant, "sandbox", r.ID, "error", err)
		return nil
	}
	return s
}

// used counts the sandboxes of a tenant, with those that are being made for requests. The
// lock is held.
func (h *Host) used(tenant string) int {
	n := h.made[tenant]
	for _, s := range h.all {
		if s.tenant.Name == tenant {
			n++
		}
	}
	return n
}

// drop ends spares that are in no list any more.
func (h *Host) drop(ctx context.Context, list []*spare) {
	for _, sp := range list {
		err := sp.s.end(context.WithoutCancel(ctx), unused)
		if err != nil && !errors.Is(err, ErrNone) {
			s := sp.s
			h.Log.Error("end a sandbox that was started ahead", "tenant", s.tenant.Name, "sandbox", s.record.ID, "error", err)
		}
	}
}

// stale takes the spares out of the lists whose time is over at a moment, or whose tenant
// or configuration is another one by now; all of them once the host is shut.
func (h *Host) stale(at time.Time) []*spare {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*spare
	for name, list := range h.spares {
		if len(list) == 0 {
			continue
		}
		t, err := h.Tenants.Named(name)
		mark := ""
		if err == nil && !h.shut {
			mark = h.mark(t)
		}
		h.spares[name] = slices.DeleteFunc(list, func(sp *spare) bool {
			bad := sp.mark != mark || at.Sub(sp.made) > spareLife || !sp.lives()
			if bad {
				out = append(out, sp)
			}
			return bad
		})
	}
	return out
}

// release ends what reserve began: with a sandbox that is in the table from here on, unless
// it is gone already, or with none. One that was made has spares of its tenant started in
// the background, one after the other.
func (h *Host) release(t tenants.Tenant, made *Sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made[t.Name]--
	if made != nil && !made.gone() {
		h.keep(made)
	}
	if made == nil || h.filling[t.Name] != nil || !h.wants(t) {
		return
	}
	done := make(chan struct{})
	h.filling[t.Name] = done
	h.wg.Go(func() {
		defer close(done)
		select { // the request's own first command comes before
		case <-time.After(fillAfter):
		case <-h.ctx.Done():
		}
		for left := t.Limits.Ahead + maxAnew; h.wanted(t, left) && h.startSpare(t); left-- {
		}
	})
}

// settle waits for a spare that is being made, where the limit has no room for it beside
// the sandbox of a request: it is ended as soon as it is made.
func (h *Host) settle(ctx context.Context, t tenants.Tenant) {
	h.mu.Lock()
	done := h.filling[t.Name]
	full := h.used(t.Name)+len(h.spares[t.Name]) >= t.Limits.Sandboxes
	h.mu.Unlock()
	if done == nil || !full {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// wants says that one more spare of the tenant, which is still the one of that name, has
// room. The lock is held.
func (h *Host) wants(t tenants.Tenant) bool {
	if now, err := h.Tenants.Named(t.Name); err != nil || !now.Created.Equal(t.Created) {
		return false
	}
	all := 0
	for _, list := range h.spares {
		all += len(list)
	}
	n := len(h.spares[t.Name])
	return !h.shut && n < t.Limits.Ahead && all < maxSpares && h.used(t.Name)+n < t.Limits.Sandboxes
}

// wanted says that a further spare is to be started, of which so many may be yet. Where it is
// not, a request that comes after it begins anew.
func (h *Host) wanted(t tenants.Tenant, left int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if left > 0 && h.wants(t) {
		return true
	}
	delete(h.filling, t.Name)
	return false
}

// startSpare starts one spare; false where that failed, which ends the filling. One that has
// no room any more is ended, and so is one whose configuration changed meanwhile.
func (h *Host) startSpare(t tenants.Tenant) bool {
	now := time.Now()
	sp := &spare{mark: h.mark(t), made: now} // before the session reads any of it
	s, err := h.start(context.WithoutCancel(h.ctx), t, Record{
		ID: newID(), Tenant: t.Name, Template: templates.Base, Created: now, End: now, State: Running,
	})
	if err != nil {
		h.Log.Error("start a sandbox ahead", "tenant", t.Name, "error", err)
	}
	sp.s = s
	h.mu.Lock()
	keep := err == nil && h.wants(t) && sp.mark == h.mark(t)
	if keep {
		h.spares[t.Name] = append(h.spares[t.Name], sp)
	}
	if err != nil {
		delete(h.filling, t.Name)
	}
	h.mu.Unlock()
	if err == nil && !keep {
		h.drop(h.ctx, []*spare{sp})
	}
	return err == nil
}
