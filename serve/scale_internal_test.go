package serve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"cloister/api"
	"cloister/serve/tenants"
	"cloister/session/launch"
)

// pretended starts sessions on hosts that are not there: what is measured is the server alone.
type pretended struct{ gone chan struct{} }

func (p pretended) Start(_ context.Context, _ Place, o launch.Order) (Live, error) {
	return Live{Name: o.Name, Gone: p.gone}, nil
}
func (p pretended) Find(context.Context, Place, string) (Live, error) { return Live{}, ErrNoSession }
func (p pretended) Record(context.Context, Place, Act) error          { return nil }
func (p pretended) Narrow(context.Context, Place, string, []api.CedarFile) error {
	return nil
}
func (p pretended) Stop(context.Context, Place, string, string) error { return nil }

// pretendedHost is a host whose tenants may have very many sandboxes.
func pretendedHost(t *testing.T, names ...string) *Host {
	t.Helper()
	register, err := tenants.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		limits := tenants.Usual()
		limits.Sandboxes, limits.Ahead = 1_000_000, 0
		if err := register.Add(tenants.Tenant{Name: name, Created: time.Now(), Limits: limits}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Open(t.Context(), Options{
		Engine: pretended{make(chan struct{})}, Tenants: register, Program: "/cloister", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func (h *Host) create1(t *testing.T, tenant string) *Sandbox {
	t.Helper()
	of, err := h.Tenants.Named(tenant)
	if err == nil {
		var s *Sandbox
		if s, err = h.Create(t.Context(), of, Request{Template: "base", Timeout: time.Hour}); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// An ID alone finds a sandbox for as long as it lives, of whichever tenant it is, and no longer.
func TestByID(t *testing.T) {
	h := pretendedHost(t, "acme", "other")
	mine, theirs := h.create1(t, "acme"), h.create1(t, "other")
	for _, s := range []*Sandbox{mine, theirs} {
		if got, err := h.ByID(s.record.ID); err != nil || got != s {
			t.Errorf("%s: %v, %v", s.record.ID, got, err)
		}
	}
	if _, err := h.Get("acme", theirs.record.ID); err != ErrNone { //nolint:errorlint // that one itself
		t.Errorf("another tenant's: %v", err)
	}
	if err := mine.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ByID(mine.record.ID); err != ErrNone { //nolint:errorlint // that one itself
		t.Errorf("one that is over: %v", err)
	}
	// The tenant is removed: the reaper ends its sandboxes, and those of no other.
	if err := h.Tenants.Remove("other", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	kept := h.create1(t, "acme")
	if due, orphans := h.over(time.Now()); len(due) > 0 || len(orphans) > 1 || len(orphans) == 1 && orphans[0] != theirs {
		t.Errorf("due %v, orphans %v", due, orphans) // none where the reaper was first
	}
	if got, err := h.ByID(kept.record.ID); err != nil || got != kept {
		t.Errorf("the other tenant's: %v, %v", got, err)
	}
}

// TestScale has a server with more and more sandboxes on hosts that are not there, and prints what each costs.
func TestScale(t *testing.T) {
	if os.Getenv("CLOISTER_LOAD") != "full" {
		t.Skip("CLOISTER_LOAD=full: a minute")
	}
	const of = 100
	var names []string
	for i := range of {
		names = append(names, fmt.Sprintf("t%d", i))
	}
	h := pretendedHost(t, names...)
	var ids []string
	fmt.Println("| sandboxes | memory of the server | create p50 | create p99 | find p50 | find p99 | list of one tenant |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, n := range []int{100, 1000, 3000, 10_000} {
		var mu sync.Mutex
		var created []time.Duration
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := len(ids) + w; i < n; i += 8 {
					began := time.Now()
					s := h.create1(t, names[i%of])
					mu.Lock()
					created = append(created, time.Since(began))
					mu.Unlock()
					_ = s
				}
			})
		}
		all.Wait()
		ids = ids[:0]
		for _, name := range names {
			for _, r := range h.List(name) {
				ids = append(ids, r.ID)
			}
		}
		var found []time.Duration
		for began := time.Now(); time.Since(began) < 3*time.Second; { // several rounds of the reaper
			id := ids[len(found)*7919%len(ids)]
			at := time.Now()
			if _, err := h.ByID(id); err != nil {
				t.Fatal(err)
			}
			found = append(found, time.Since(at))
		}
		at := time.Now()
		h.List("t1")
		list := time.Since(at)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p := func(d []time.Duration, of float64) time.Duration {
			slices.Sort(d)
			return d[min(len(d)-1, int(float64(len(d))*of))]
		}
		worst := found[0]
		for _, d := range found {
			worst = max(worst, d)
		}
		fmt.Printf("| %d | %.1f MB | %s | %s | %s | %s (worst %s) | %s |\n", n, float64(m.HeapInuse)/1e6,
			p(created, 0.5).Round(time.Microsecond), p(created, 0.99).Round(time.Microsecond),
			p(found, 0.5), p(found, 0.99), worst.Round(time.Microsecond), list.Round(time.Microsecond))
	}
}
