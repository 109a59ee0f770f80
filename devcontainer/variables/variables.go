// Package variables replaces the variables of a devcontainer: ${localEnv:NAME},
// ${localWorkspaceFolder} and the others of the specification.
//
// The promise: one pass, so that a value that looks like a variable stays as it is;
// a variable that is not known yet, or at all, stays as written; every host variable
// that a text names is reported. What a host variable's value is, the caller says: the
// room reads no environment.
// Most readers want [Set.Replace].
package variables

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"path"
	"regexp"
	"strings"
	"sync"
)

var pattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{(.*?)\}`) })

// Set is what variables stand for. What is nil or empty is not known yet.
type Set struct {
	// LocalEnv is a variable of the host, as far as the devcontainer may have it.
	LocalEnv func(name string) (string, bool)
	// ContainerEnv is a variable of the image; nil before one is there.
	ContainerEnv             func(name string) (string, bool)
	LocalWorkspaceFolder     string
	ContainerWorkspaceFolder string
	// ID is ${devcontainerId}.
	ID string
}

// Unnamed says that a variable's name is missing.
type Unnamed struct{ Text string }

func (e *Unnamed) Error() string { return fmt.Sprintf("%s names no variable", e.Text) }

// Replace gives a value of JSON with the variables of every string replaced. Keys stay.
func (s Set) Replace(v any) (any, error) {
	switch t := v.(type) {
	case string:
		return s.Text(t)
	case []any:
		out := make([]any, len(t))
		for i, item := range t {
			var err error
			if out[i], err = s.Replace(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(t))
		for key, item := range t {
			var err error
			if out[key], err = s.Replace(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// Text replaces the variables of one string.
func (s Set) Text(text string) (string, error) {
	var bad error
	out := pattern().ReplaceAllStringFunc(text, func(whole string) string {
		value, err := s.one(whole)
		if err != nil && bad == nil {
			bad = err
		}
		return value
	})
	return out, bad
}

// one is what a variable stands for. As in the reference, a value after NAME: stands
// in where there is none, as far as its next colon.
func (s Set) one(whole string) (string, error) {
	parts := strings.Split(whole[2:len(whole)-1], ":")
	look := func(find func(string) (string, bool)) (string, error) {
		if len(parts) < 2 {
			return whole, &Unnamed{whole}
		}
		if value, ok := find(parts[1]); ok {
			return value, nil
		}
		if len(parts) > 2 {
			return parts[2], nil
		}
		return "", nil
	}
	folder := func(value string, base bool) string {
		switch {
		case value == "":
			return whole
		case base:
			return path.Base(value)
		}
		return value
	}
	switch parts[0] {
	case "env", "localEnv":
		if s.LocalEnv != nil {
			return look(s.LocalEnv)
		}
	case "containerEnv":
		if s.ContainerEnv != nil {
			return look(s.ContainerEnv)
		}
	case "localWorkspaceFolder":
		return folder(s.LocalWorkspaceFolder, false), nil
	case "localWorkspaceFolderBasename":
		return folder(s.LocalWorkspaceFolder, true), nil
	case "containerWorkspaceFolder":
		return folder(s.ContainerWorkspaceFolder, false), nil
	case "containerWorkspaceFolderBasename":
		return folder(s.ContainerWorkspaceFolder, true), nil
	case "devcontainerId":
		return folder(s.ID, false), nil
	}
	return whole, nil
}

// Local are the host's variables that a value of JSON names, each once.
func Local(v any) []string {
	var out []string
	seen := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch t := v.(type) {
		case string:
			for _, m := range pattern().FindAllStringSubmatch(t, -1) {
				parts := strings.Split(m[1], ":")
				if (parts[0] == "env" || parts[0] == "localEnv") && len(parts) > 1 && !seen[parts[1]] {
					seen[parts[1]] = true
					out = append(out, parts[1])
				}
			}
		case []any:
			for _, item := range t {
				walk(item)
			}
		case map[string]any:
			for _, item := range t {
				walk(item)
			}
		}
	}
	walk(v)
	return out
}

// ID is ${devcontainerId} for the labels by which a container is found, as the
// specification computes it.
func ID(labels map[string]string) (string, error) {
	text, err := json.Marshal(labels) // keys sorted
	if err != nil {
		return "", fmt.Errorf("compute the devcontainer's ID: %w", err)
	}
	sum := sha256.Sum256(text)
	id := new(big.Int).SetBytes(sum[:]).Text(32)
	return strings.Repeat("0", max(0, 52-len(id))) + id, nil
}
