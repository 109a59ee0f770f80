package features

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Locked is what a lock file says of one feature, as the reference writes it.
type Locked struct {
	Version   string   `json:"version,omitempty"`
	Resolved  string   `json:"resolved"`
	Integrity string   `json:"integrity"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// Lock is a lock file: what each feature of a registry is pinned to, by its name as the
// devcontainer writes it.
type Lock map[string]Locked

// ReadLock reads a lock file; there are no entries in none.
func ReadLock(name string, text []byte) (Lock, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return Lock{}, nil
	}
	var file struct{ Features Lock }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for id, one := range file.Features {
		ref, err := ParseRef(id)
		if err != nil {
			continue // an archive by its address, or one that this devcontainer does not have
		}
		if !digestName().MatchString(one.Integrity) || one.Resolved != ref.At(one.Integrity) {
			return nil, fmt.Errorf("read %s: features.%s: %s with the integrity %q is not the feature in one digest",
				name, id, one.Resolved, one.Integrity)
		}
		if ref.Pinned() && ref.Version != one.Integrity {
			return nil, fmt.Errorf("read %s: features.%s: it is another digest than the one in its name", name, id)
		}
	}
	return file.Features, nil
}

// Digest is what a feature is pinned to, by its name or the lock.
func (l Lock) Digest(id string) (string, bool) {
	if ref, err := ParseRef(id); err == nil && ref.Pinned() {
		return ref.Version, true
	}
	one, ok := l[id]
	return one.Integrity, ok
}

// With is the text of a lock file with further entries. What else it says stays.
func With(text []byte, more Lock) ([]byte, error) {
	file := map[string]json.RawMessage{}
	entries := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &file); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(file["features"], &entries); file["features"] != nil && err != nil {
			return nil, err
		}
	}
	var errs []error
	put := func(into map[string]json.RawMessage, name string, v any) {
		raw, err := json.Marshal(v)
		into[name], errs = raw, append(errs, err)
	}
	for _, id := range slices.Sorted(maps.Keys(more)) {
		put(entries, id, more[id])
	}
	put(file, "features", entries)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}
