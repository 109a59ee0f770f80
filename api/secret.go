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
	SecretMissing = "missing" // bound in the configuration, and not in the vault
)

// Secret is one line of `cloister secret list --json`.
type Secret struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	// Command prints the value; Refresh is how long its answer is kept.
	Command []string   `json:"command,omitempty"`
	Refresh string     `json:"refresh,omitempty"`
	SetAt   *time.Time `json:"set_at,omitempty"`
	// Uses counts the requests that it went into since the guardian started.
	Uses     int        `json:"uses"`
	Refused  int        `json:"refused"`
	LastUsed *time.Time `json:"last_used_at,omitempty"`
	// Problem is why its value cannot be had.
	Problem  string          `json:"problem,omitempty"`
	Bindings []SecretBinding `json:"bindings"`
}

// SecretBinding is where one secret may go.
type SecretBinding struct {
	Hosts   []string `json:"hosts"`
	Ports   []uint16 `json:"ports,omitempty"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Place   string   `json:"place"`
	Format  string   `json:"format,omitempty"`
	Use     string   `json:"use"` // allow|ask|deny
	Env     []string `json:"env,omitempty"`
	Where   string   `json:"where,omitempty"` // file:line
}

// A Login is a placeholder that goes to a host as the password of a login, for
// git's credential helper and netrc.
type Login struct {
	Host     string `json:"host"` // with its port, where that is not 443
	User     string `json:"user"`
	Password string `json:"password"`
}

// A Placeholder is what a session has in the place of one secret.
type Placeholder struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Core string `json:"core"` // the part of Text that no other text has
}

// SecretSet is the body of POST /v1/secrets/{name}: a value, or a command that
// prints it.
type SecretSet struct {
	Value     string   `json:"value,omitempty"`
	Command   []string `json:"command,omitempty"`
	RefreshMS int64    `json:"refresh_ms,omitempty"`
}
