// Package api names the words that travel between the guardian and those who
// call it on its unix socket.
//
// The promise: every request, answer and frame of /v1/ has its Go type here,
// with its JSON name, so that client and guardian cannot disagree about a
// field. Types are plain data; they hold no connection and check nothing.
//
// It does not validate: the guardian does, at the border where values arrive.
//
// Most readers want [SessionRequest], [SessionGrant] and [Frame].
package api

import (
	"fmt"
	"net/http"
	"time"
)

// Routes of the guardian, all on its unix socket.
const (
	PathStatus        = "/v1/status"
	PathStop          = "/v1/stop"
	PathReload        = "/v1/reload"
	PathSessions      = "/v1/sessions"
	PathPolicy        = "/v1/policy"
	PathPolicyDigest  = "/v1/policy/digest"
	PathPolicyCheck   = "/v1/policy/check"
	PathPolicyExplain = "/v1/policy/explain"
	PathApprovals     = "/v1/approvals"
	PathDecisions     = "/v1/decisions"
	PathEvents        = "/v1/events"
	PathSecrets       = "/v1/secrets"
	PathLogins        = "/v1/logins"
	PathWindow        = "/v1/window"
	PathAudit         = "/v1/audit"
	PathPolicyFiles   = "/v1/policy/files"
	PathPolicyDraft   = "/v1/policy/draft"
	PathPolicyWords   = "/v1/policy/words"
	PathCommands      = "/v1/commands"
	PathFiles         = "/v1/files"
	PathDoctor        = "/v1/doctor"
	PathProjects      = "/v1/projects"
)

// UpgradeProtocol is the value of the Upgrade header that turns
// POST /v1/sessions into a link.
const UpgradeProtocol = "cloister-shim/1"

// Host is what a client says for the Host on the unix socket; any name of one
// label is answered there, such as localhost.
const Host = "guardian"

// Bounds of what travels. A larger request, or a longer frame, is refused.
const (
	MaxBody  = 12 << 20 // bytes of one HTTP request or answer body
	MaxFrame = 6 << 20  // bytes of one link frame with its newline
	MaxExec  = 5 << 20  // bytes of what a shim deposits for exec
)

// Code tells a program why a call was refused. The person reads Message.
type Code string

// The closed set of codes.
const (
	CodeBadRequest   Code = "bad_request"   // the words are wrong
	CodeNotFound     Code = "not_found"     // no such session or route
	CodeNameTaken    Code = "name_taken"    // a live session has that name
	CodeOver         Code = "over"          // another answer was first, or no program waits any more
	CodeConfirm      Code = "confirm"       // say confirm: true, when the person meant it
	CodeRunning      Code = "running"       // the session that is asked for lives already; Session is its name
	CodeForbidden    Code = "forbidden"     // the caller may not
	CodePolicy       Code = "policy"        // the policy does not compile, or cannot be enforced
	CodeUnrecorded   Code = "unrecorded"    // the audit cannot be written, so nothing starts
	CodeVault        Code = "vault"         // the vault cannot be read, or a command gave no secret
	CodeShuttingDown Code = "shutting_down" // the guardian is on its way out
	CodeInternal     Code = "internal"
)

// Error is the body of every answer that is not a success. It is also the Go
// error that client returns, so that errors.As finds Code and Hints.
type Error struct {
	Status  int      `json:"-"`
	Code    Code     `json:"code"`
	Message string   `json:"error"`
	Session string   `json:"session,omitempty"`
	Hints   []string `json:"hints,omitempty"`
}

// BadRequest is the error of a request that says what cannot be.
func BadRequest(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

// Unrecorded is the error of what does not happen because the record could not be written.
func Unrecorded(what string, err error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Code: CodeUnrecorded,
		Message: what + ": it could not be recorded, so it does not happen: " + err.Error(),
		Hints:   []string{"see: cloister guardian status, cloister audit verify"},
	}
}

// Error says the operation and why it failed, on one line.
func (e *Error) Error() string { return e.Message }

// Status answers GET /v1/status; the names are those of
// `cloister guardian status --json`.
type Status struct {
	Running      bool   `json:"running"`
	PID          int    `json:"pid"`
	Version      string `json:"version"`
	Socket       string `json:"socket"`
	UI           string `json:"ui"`
	Sessions     int    `json:"sessions"`
	PolicyDigest string `json:"policy_digest"`
	// Watchers is how many see the questions; with none, an ask is refused at once.
	Watchers  int       `json:"watchers"`
	StartedAt time.Time `json:"started_at,omitzero"`
	// PolicyError is why the files on disk are not in force: the last reload
	// failed and the last good policy still rules. Empty when all is well.
	PolicyError string `json:"policy_error,omitempty"`
	// AuditError is the write error that latched the audit: since then every
	// verdict is deny. Empty when all is well.
	AuditError string   `json:"audit_error,omitempty"`
	Notices    []string `json:"notices,omitempty"`
}

// StopRequest is the body of POST /v1/stop and POST /v1/sessions/{name}/stop.
type StopRequest struct {
	Reason string `json:"reason,omitempty"`
	// GraceMS is how long the session may take to end by itself before its
	// shim is killed; 0 means the guardian's default of 10 s.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// Reload answers POST /v1/reload.
type Reload struct {
	Digest   string   `json:"digest"`
	Previous string   `json:"previous"`
	Changed  bool     `json:"changed"`
	Notices  []string `json:"notices,omitempty"`
}
