package api

import "time"

// Secrets answers GET /v1/secrets. No value is ever in it.
type Secrets struct {
	// Protection says in words what keeps the values.
	Protection string   `json:"protection"`
	Secrets    []Secret `json:"secrets"`
}

// Where the value of a secret comes from.
const (
	SecretStored  = "stored"  // the vault
	SecretCommand = "command" // a command of the host
)

// Secret is one line of `cloister secret list --json`.
type Secret struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	// Command prints the value; Refresh is how long its answer is kept.
	Command []string   `json:"command,omitempty"`
	Refresh string     `json:"refresh,omitempty"`
	SetAt   *time.Time `json:"set_at,omitempty"`
	// Problem is why its value cannot be had.
	Problem string `json:"problem,omitempty"`
}

// SecretSet is the body of POST /v1/secrets/{name}: a value, or a command that
// prints it.
type SecretSet struct {
	Value     string   `json:"value,omitempty"`
	Command   []string `json:"command,omitempty"`
	RefreshMS int64    `json:"refresh_ms,omitempty"`
}
