package tenants

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/internal/durable"
)

// Standard is the configuration that a new tenant has: nothing but what its own words
// allow, and no question is asked.
const Standard = `# The policy of this tenant. Its requests can narrow it, never widen it.
version: 1
proxy:
  unlisted_domain_behavior: deny
  presets: []
`

// Configure writes the configuration of a new tenant. A tenant of that name that was removed
// has left its own, with its snapshots, secrets and record: it stays, and again is true.
func Configure(file string) (again bool, err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return false, fmt.Errorf("configure tenant: %w", err)
	}
	_, err = os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, durable.WriteFile(file, []byte(Standard), 0o600)
	}
	return err == nil, err
}

// Write writes the configuration that several servers have of a tenant to where this one's instance
// reads it, if it is another. It is what this server has heard last: a request may have waited since it
// found its tenant, and what it found has been replaced, or is another's by now.
func (r *Register) Write(t Tenant) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	now, err := r.Named(t.Name)
	if err == nil && !now.Created.Equal(t.Created) {
		err = ErrMissing
	}
	if err != nil {
		return fmt.Errorf("configure tenant %s: %w", t.Name, err)
	}
	t = now
	file := filepath.Join(r.Home(t.Name), "config", "cloister", "config.yaml")
	text, err := os.ReadFile(file)
	if err == nil && string(text) == t.Config {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("configure tenant %s: %w", t.Name, err)
	}
	return durable.WriteFile(file, []byte(t.Config), 0o600)
}
