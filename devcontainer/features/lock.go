package features

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"cloister/devcontainer/jsonc"
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

// ReadLock reads a lock file; there are no entries in none. Entries of what is no feature
// of a registry are passed over, such as archives by their address.
func ReadLock(name string, text []byte) (Lock, error) {
	out := Lock{}
	if len(bytes.TrimSpace(text)) == 0 {
		return out, nil
	}
	v, err := jsonc.Parse(name, text)
	if err != nil {
		return nil, err
	}
	list, _ := v.Get("features")
	if v.Kind != jsonc.Object || list.Kind != jsonc.Object && list.Kind != jsonc.Null {
		return nil, &jsonc.Error{File: name, Line: v.Line, Column: v.Column, Msg: "it is no lock file of features"}
	}
	for _, m := range list.Members {
		ref, err := ParseRef(m.Name)
		if err != nil {
			continue
		}
		version, _ := m.Value.Get("version")
		resolved, _ := m.Value.Get("resolved")
		integrity, _ := m.Value.Get("integrity")
		one := Locked{Version: version.Text, Resolved: resolved.Text, Integrity: integrity.Text}
		why := ""
		switch {
		case !digestName().MatchString(one.Integrity) || one.Resolved != ref.At(one.Integrity):
			why = fmt.Sprintf("%s with the integrity %q is not the feature in one digest", one.Resolved, one.Integrity)
		case ref.Pinned() && ref.Version != one.Integrity:
			why = "it is another digest than the one in its name"
		default:
			out[m.Name] = one
			continue
		}
		return nil, &jsonc.Error{File: name, Line: m.Line, Column: m.Column, Msg: "features." + m.Name + ": " + why}
	}
	return out, nil
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
