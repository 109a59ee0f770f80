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
	SecretLogin   = "login"   // a service that a person logged in to
	SecretMissing = "missing" // bound in the configuration, and not in the vault
)

// Secret is one line of `cloister secret list --json`.
type Secret struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Kind   string `json:"kind,omitempty"` // aws: an access key
	// Command prints the value; Refresh is how long its answer is kept.
	Command []string   `json:"command,omitempty"`
	Login   string     `json:"login,omitempty"` // the service
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

// A PasswordLogin is a placeholder that goes to a host as the password of a login, for
// git's credential helper and netrc.
type PasswordLogin struct {
	Host     string `json:"host"` // with its port, where that is not 443
	User     string `json:"user"`
	Password string `json:"password"`
}

// A LoginFile is a file in the home inside that makes a program believe that it is
// logged in. It holds placeholders.
type LoginFile struct {
	Path string `json:"path"` // below the home
	Text string `json:"text"`
}

// LoginBegun answers POST /v1/logins/{name}: where a person goes, and what they
// type there.
type LoginBegun struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Secret  string    `json:"secret"` // what the vault will call it
	URL     string    `json:"url"`
	Code    string    `json:"code,omitempty"`
	Expires time.Time `json:"expires"`
}

// LoginFinish is the body of POST /v1/logins/{name}/finish, which waits until the
// person has agreed. With an Answer (the address that the browser ended at) it
// gives that to whoever waits.
type LoginFinish struct {
	ID     string `json:"id"`
	Answer string `json:"answer,omitempty"`
}

// A Placeholder is what a session has in the place of one secret.
type Placeholder struct {
	Name string `json:"name"`
	Part string `json:"part,omitempty"` // of an access key: id, secret or token
	Text string `json:"text"`
	Core string `json:"core"` // the part of Text that no other text has
}

// SecretSet is the body of POST /v1/secrets/{name}: a value, or a command that
// prints it.
type SecretSet struct {
	Value     string   `json:"value,omitempty"`
	Command   []string `json:"command,omitempty"`
	RefreshMS int64    `json:"refresh_ms,omitempty"`
	Kind      string   `json:"kind,omitempty"` // aws: an access key, in a form that people have it in
}
