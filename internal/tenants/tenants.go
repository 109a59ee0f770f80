// Package tenants knows the hosts behind which many tenants are distinguished only by
// what is inside TLS: object stores, registries, source hosts, sites of anyone.
//
// Promise: each host that a preset names is among them, and a pattern that covers one
// of them is found.
//
// It decides nothing: policy refuses to pass TLS to such a host on uninspected, and
// the guardian has nothing but HTTP pass there.
//
// Most readers want [Share].
package tenants

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"cloister/internal/authority"
)

//go:embed hosts.txt
var text string

// A table finds a host without a look at every pattern.
type table struct {
	exact, below map[string]bool
	names        []string // the bases of all, sorted
}

var hosts = sync.OnceValue(func() table {
	t := table{exact: map[string]bool{}, below: map[string]bool{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		base, wild := strings.CutPrefix(line, "*.")
		if wild {
			t.below[base] = true
		} else {
			t.exact[base] = true
		}
		t.names = append(t.names, base)
	}
	slices.Sort(t.names)
	return t
})

// Share reports whether many tenants share the host.
func Share(host string) bool {
	t := hosts()
	if t.exact[host] {
		return true
	}
	for {
		_, parent, ok := strings.Cut(host, ".")
		if !ok {
			return false
		}
		if host = parent; t.below[host] {
			return true
		}
	}
}

// Met gives a host of many tenants that the pattern covers; empty for none.
func Met(p authority.Pattern) string {
	if Share(p.Base()) {
		return p.Base()
	}
	if !p.Wildcard() {
		return ""
	}
	t := hosts()
	if t.below[p.Base()] || p.Base() == "" {
		return p.String()
	}
	for _, name := range t.names {
		if strings.HasSuffix(name, "."+p.Base()) {
			return name
		}
	}
	return ""
}
