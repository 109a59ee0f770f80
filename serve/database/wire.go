package database

import (
	"encoding/json"
	"time"

	"cloister/serve/tenants"
)

// Service is the name by which the methods are called.
const Service = "Database"

// Schema is the version of the tables that this program works with.
const Schema = 4

// Server is the caller: a server's place, and which of its processes.
type Server struct {
	Place       string `json:"server"`
	Incarnation string `json:"incarnation"`
}

// Row is what the servers know of a sandbox. Its record is a serve.Record without what opens it.
type Row struct {
	ID     string          `json:"id"`
	Tenant string          `json:"tenant"`
	Owner  string          `json:"owner,omitempty"`
	Record json.RawMessage `json:"record"`
	// Lost says that it was another server's, which was out of touch, and is there to be given up.
	Lost bool `json:"lost,omitempty"`
}

// Kind is why a call was not carried out.
type Kind string

// The closed set of kinds.
const (
	OK      Kind = ""
	IsAway  Kind = "away"    // the database cannot be asked, or cannot write
	IsLost  Kind = "lost"    // the lease is over, or the row is another server's
	IsOver  Kind = "over"    // the tenant has as many sandboxes as it may
	IsNone  Kind = "none"    // there is no such tenant or sandbox
	IsOther Kind = "changed" // another change came before
	IsNewer Kind = "newer"   // the tables are those of a newer release
)

// Fault is why, in every answer.
type Fault struct {
	Kind Kind   `json:"kind,omitempty"`
	Text string `json:"text,omitempty"`
}

// Beat keeps a server's lease.
type Beat struct {
	Server
	Join     bool          `json:"join,omitempty"` // a new process of the server
	Address  string        `json:"address"`        // by which others reach it
	Lease    time.Duration `json:"lease"`
	Revision int64         `json:"revision"` // of the register that it has
}

// Beaten answers a beat.
type Beaten struct {
	Fault
	// Lapsed says that the lease had been over: the server's rows may be others' by now.
	Lapsed bool `json:"lapsed,omitempty"`
	// Left is how long the lease holds from the question on.
	Left time.Duration `json:"left"`
	Register
}

// Register is the tenants' table, if it is another than the one that was named.
type Register struct {
	Revision int64          `json:"revision"`
	Table    *tenants.Table `json:"table,omitempty"`
}

// Ask asks for rows.
type Ask struct {
	Server
	Tenant   string        `json:"tenant,omitempty"`
	ID       string        `json:"id,omitempty"`
	Lease    time.Duration `json:"lease,omitempty"`
	Revision int64         `json:"revision,omitempty"`
}

// Rows answer it.
type Rows struct {
	Fault
	Rows []Row `json:"rows"`
}

// Where is which server has a sandbox, and whether its lease holds.
type Where struct {
	Fault
	Row
	Address string `json:"address"`
	Alive   bool   `json:"alive"`
}

// Write is one row to be written.
type Write struct {
	Server
	Row
	Created time.Time `json:"created,omitzero"` // of the tenant that its name stands for
}

// MaxStruck is how many sandboxes are struck by one call.
const MaxStruck = 1000

// Struck are sandboxes that are over.
type Struck struct {
	Server
	IDs []string `json:"ids"`
}

// Done answers what gives nothing.
type Done struct{ Fault }

// Registered answers the question for the register.
type Registered struct {
	Fault
	Register
}

// Change replaces the register of a revision.
type Change struct {
	Revision int64         `json:"revision"`
	Table    tenants.Table `json:"table"`
}
