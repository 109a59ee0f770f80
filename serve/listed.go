package serve

import (
	"slices"
	"strings"
)

// Get finds a sandbox of a tenant. One of another tenant is not found, as one that never
// was.
func (h *Host) Get(tenant, id string) (*Sandbox, error) {
	h.mu.Lock()
	s := h.all[key(tenant, id)]
	h.mu.Unlock()
	if s == nil || s.gone() {
		return nil, ErrNone
	}
	return s, h.holds()
}

// ByID finds a sandbox for whoever has its token, of any tenant: the caller checks the
// token before it answers.
func (h *Host) ByID(id string) (*Sandbox, error) {
	h.mu.Lock()
	s := h.byID[id]
	h.mu.Unlock()
	if s == nil || s.gone() {
		return nil, ErrNone
	}
	return s, h.holds()
}

// List gives a tenant's sandboxes on this server, the newest first.
func (h *Host) List(tenant string) []Record {
	h.mu.Lock()
	var out []Record
	for _, s := range h.all {
		if s.tenant.Name == tenant && !s.gone() {
			out = append(out, s.Record())
		}
	}
	h.mu.Unlock()
	newestFirst(out)
	return out
}

func newestFirst(list []Record) {
	slices.SortFunc(list, func(a, b Record) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}
