package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cloister/internal/durable"
)

// Pins are the definitions of tools that a person lives with: what a server said
// of a tool when it was first seen, or what a person took since. They lie in one
// file, which is read when the first is asked for. One that cannot be read is an
// error each time, and is left as it is.
type Pins struct {
	file string
	now  func() time.Time

	mu      sync.Mutex
	servers map[string]map[string]Pin // nil until it was read
}

// A Pin is a tool as it may be used.
type Pin struct {
	Digest     string          `json:"digest"`
	Definition json.RawMessage `json:"definition"`
	At         time.Time       `json:"at"`
	By         string          `json:"by"` // who took it; "first seen" where no person did
	// Seen is what the server says now, where that is another.
	Seen *Seen `json:"seen,omitempty"`
}

// Seen is what a server said that no one has taken.
type Seen struct {
	Digest     string          `json:"digest"`
	Definition json.RawMessage `json:"definition"`
	At         time.Time       `json:"at"`
}

// A Change is a tool that is not what it was.
type Change struct {
	Tool     string
	Old, New Definition
}

// mostPinned bounds the tools of one server, maxPins the whole file.
const (
	mostPinned = 2000
	maxPins    = 64 << 20
)

// OpenPins are the pins in a file, which need not exist.
func OpenPins(file string, now func() time.Time) *Pins { return &Pins{file: file, now: now} }

func (p *Pins) load() error {
	if p.servers != nil {
		return nil
	}
	text, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		p.servers = map[string]map[string]Pin{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pins: %w", err)
	}
	var f struct {
		Version int                       `json:"version"`
		Servers map[string]map[string]Pin `json:"servers"`
	}
	if err := json.Unmarshal(text, &f); err != nil || f.Version != 1 {
		return fmt.Errorf("read pins: %s is damaged, or of a later version: move it away, and every tool is pinned anew",
			p.file)
	}
	p.servers = f.Servers
	if p.servers == nil {
		p.servers = map[string]map[string]Pin{}
	}
	return nil
}

func (p *Pins) save(next map[string]map[string]Pin) error {
	text, err := json.MarshalIndent(map[string]any{"version": 1, "servers": next}, "", " ")
	if err != nil {
		return fmt.Errorf("write pins: %w", err)
	}
	if len(text) > maxPins {
		return fmt.Errorf("write pins: more than %d bytes: take some away with cloister mcp pin --forget", maxPins)
	}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return fmt.Errorf("write pins: %w", err)
	}
	if err := durable.WriteFile(p.file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write pins: %w", err)
	}
	p.servers = next
	return nil
}

// change gives f a copy of one server's pins, and writes what became of it.
func (p *Pins) change(server string, f func(map[string]Pin) (bool, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return err
	}
	tools := maps.Clone(p.servers[server])
	if tools == nil {
		tools = map[string]Pin{}
	}
	changed, err := f(tools)
	if err != nil || !changed {
		return err
	}
	next := maps.Clone(p.servers)
	next[server] = tools
	return p.save(next)
}

// See compares what a server says of its tools with what is pinned. Those that are
// seen for the first time are pinned so, and given in fresh.
func (p *Pins) See(server string, defs []Definition) (changed []Change, fresh []string, err error) {
	err = p.change(server, func(tools map[string]Pin) (bool, error) {
		dirty := false
		for _, d := range defs {
			pin, known := tools[d.Name]
			switch {
			case !known && len(tools) >= mostPinned:
				return false, fmt.Errorf("pin %s: the server has %d tools already", d.Name, mostPinned)
			case !known:
				fresh = append(fresh, d.Name)
				tools[d.Name] = Pin{Digest: d.Digest, Definition: d.Text, At: p.now().UTC(), By: "first seen"}
				dirty = true
			case pin.Digest == d.Digest:
				if pin.Seen != nil { // it is what it was again
					pin.Seen = nil
					tools[d.Name] = pin
					dirty = true
				}
			default:
				changed = append(changed, Change{Tool: d.Name, Old: pin.definition(d.Name), New: d})
				if pin.Seen == nil || pin.Seen.Digest != d.Digest {
					pin.Seen = &Seen{Digest: d.Digest, Definition: d.Text, At: p.now().UTC()}
					tools[d.Name] = pin
					dirty = true
				}
			}
		}
		return dirty, nil
	})
	return changed, fresh, err
}

func (p Pin) definition(name string) Definition {
	return Definition{Name: name, Digest: p.Digest, Text: p.Definition}
}

// Changed is how a tool was last seen, where that is not what is pinned.
func (p *Pins) Changed(server, tool string) (*Change, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return nil, err
	}
	pin, ok := p.servers[server][tool]
	if !ok || pin.Seen == nil {
		return nil, nil // no change is no error
	}
	return &Change{Tool: tool, Old: pin.definition(tool),
		New: Definition{Name: tool, Digest: pin.Seen.Digest, Text: pin.Seen.Definition}}, nil
}

// Take pins tools as they were seen last: the one with that digest, or whichever
// it is where digest is empty. It gives those that changed by that.
func (p *Pins) Take(server string, digests map[string]string, by string) (taken []string, err error) {
	err = p.change(server, func(tools map[string]Pin) (bool, error) {
		for _, tool := range slices.Sorted(maps.Keys(digests)) {
			pin, known := tools[tool]
			switch want := digests[tool]; {
			case !known:
				return false, fmt.Errorf("pin %s of %s: it was never listed", tool, server)
			case pin.Seen == nil:
			case want != "" && pin.Seen.Digest != want:
				return false, fmt.Errorf("pin %s of %s: it has changed again", tool, server)
			default:
				tools[tool] = Pin{Digest: pin.Seen.Digest, Definition: pin.Seen.Definition, At: p.now().UTC(), By: by}
				taken = append(taken, tool)
			}
		}
		return len(taken) > 0, nil
	})
	return taken, err
}

// Forget takes pins away; all of a server with no tool named.
func (p *Pins) Forget(server string, tools []string) (gone []string, err error) {
	err = p.change(server, func(all map[string]Pin) (bool, error) {
		if len(tools) == 0 {
			tools = slices.Sorted(maps.Keys(all))
		}
		for _, t := range tools {
			if _, known := all[t]; known {
				gone = append(gone, t)
				delete(all, t)
			}
		}
		return len(gone) > 0, nil
	})
	return gone, err
}

// Of are the pins of a server.
func (p *Pins) Of(server string) (map[string]Pin, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return nil, err
	}
	return maps.Clone(p.servers[server]), nil
}
