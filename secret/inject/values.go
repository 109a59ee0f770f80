package inject

import (
	"slices"
	"sync"
	"sync/atomic"

	"cloister/secret"
)

// mostValues bounds the values of one secret that are remembered: a command may make
// another one every second.
const mostValues = 8

// Values are what secrets have been since the guardian began, those of now and older
// ones: a server may still say what it was sent before. All sessions share them.
type Values struct {
	mu      sync.Mutex
	byName  map[string][]secret.Value
	version atomic.Uint64
}

// Learn remembers a value of a secret, from now on in every session, and reports whether it
// was not the last already.
func (v *Values) Learn(name string, value secret.Value) bool {
	if value.IsZero() {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.byName[name]
	if i := slices.IndexFunc(known, value.Is); i >= 0 {
		if i == len(known)-1 {
			return false
		}
		known = slices.Delete(slices.Clone(known), i, i+1) // the last is that of now
	}
	if known = append(slices.Clip(known), value); len(known) > mostValues {
		known = known[1:]
	}
	if v.byName == nil {
		v.byName = map[string][]secret.Value{}
	}
	v.byName[name] = known
	v.version.Add(1)
	return true
}

// Version is another one once something was learned.
func (v *Values) Version() uint64 { return v.version.Load() }

// Of are the values of one secret, the oldest first.
func (v *Values) Of(name string) []secret.Value {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.byName[name])
}

// Scrubber takes the values of this session's secrets out of what comes back; nil where
// none is known.
func (s *Session) Scrubber() *secret.Scrubber {
	version := s.values.version.Load()
	if c := s.scrub.Load(); c != nil && c.version == version {
		return c.by
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	version = s.values.version.Load() // first: what is learned meanwhile is looked at next time
	if c := s.scrub.Load(); c != nil && c.version == version {
		return c.by
	}
	var all []secret.Scrubbed
	for _, h := range s.held {
		for _, value := range s.values.Of(h.Name) {
			if key, is := secret.OpenAWS(value); is {
				value = key.Part(h.Part)
			}
			all = append(all, secret.Scrubbed{Value: value, Placeholder: h.Placeholder.Text})
		}
	}
	if c := s.scrub.Load(); c != nil && slices.EqualFunc(c.of, all, same) {
		all = c.of
		s.scrub.Store(&cleaner{version: version, of: all, by: c.by}) // another session's secret is new
		return c.by
	}
	c := &cleaner{version: version, of: all, by: secret.NewScrubber(all)}
	s.scrub.Store(c)
	return c.by
}

// A cleaner is a Scrubber with what it was made of.
type cleaner struct {
	version uint64
	of      []secret.Scrubbed
	by      *secret.Scrubber
}

func same(a, b secret.Scrubbed) bool {
	return a.Placeholder == b.Placeholder && a.Value.Is(b.Value)
}
