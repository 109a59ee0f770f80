// Package audit keeps the record of what every cloister asked for, in an
// append-only chain of JSON lines.
//
// The promise: when [Log.Append] returns nil the whole record has been given
// to the kernel, so that a crash of this process loses nothing that was
// acknowledged; it is on the disk at most 10 ms later. What only tells how
// something ended may be given by [Log.AppendSoon], which a crash of the last 5 ms
// can take. After the first error of a write or a sync every later Append fails: a caller that acts only
// after nil never acts unrecorded. One event is one line of JSON without raw
// control bytes, whatever the event holds. [Verify] names the first record
// that was edited, removed, reordered or cut off.
//
// It does not decide what is recorded, does not hide a record from a process
// of the same user, and cannot notice when the whole folder is replaced by an
// older copy of itself.
//
// Most readers want [Open] with [Log.Append], or [Read].
package audit

import (
	"time"
)

// Version is the V of the events written today.
const Version = 1

// Kind says what an event is about.
type Kind = string

// The closed vocabulary of kinds.
const (
	SessionStart     Kind = "session.start"
	SessionStop      Kind = "session.stop"
	NetDNS           Kind = "net.dns"
	NetConnect       Kind = "net.connect"
	HTTPRequest      Kind = "http.request"
	MCPCall          Kind = "mcp.call"
	SecretUse        Kind = "secret.use"
	HostexecRequest  Kind = "hostexec.request"
	HostexecResult   Kind = "hostexec.result"
	ApprovalRequest  Kind = "approval.request"
	ApprovalDecision Kind = "approval.decision"
	FileDenied       Kind = "file.denied"
	FileOpen         Kind = "file.open" // what a session in mode record opened, and how often
	AutorunChanged   Kind = "file.autorun_changed"
	FileReview       Kind = "file.review"
	Exec             Kind = "exec"
	PolicyLoad       Kind = "policy.load"
	GuardianStart    Kind = "guardian.start"
	GuardianStop     Kind = "guardian.stop"
	ResidueAccepted  Kind = "residue.accepted"
	StateCheckpoint  Kind = "state.checkpoint"
	StateRestore     Kind = "state.restore"
	StateFork        Kind = "state.fork"
	StateApply       Kind = "state.apply"
	StateUndo        Kind = "state.undo"
	StateMemory      Kind = "state.memory" // the memory of a session that runs, with the checkpoint of its files
	TenantAdd        Kind = "tenant.add"
	TenantStop       Kind = "tenant.stop"
	TenantRemove     Kind = "tenant.remove"
	TenantKeyAdd     Kind = "tenant.key_add"
	TenantKeyRemove  Kind = "tenant.key_remove"
	TenantFile       Kind = "tenant.file" // a file that a request of a tenant changes
	TenantPort       Kind = "tenant.port" // a port of a sandbox that requests reach
	TenantPerson     Kind = "tenant.person"
	TenantTemplate   Kind = "tenant.template"
	TenantSandbox    Kind = "tenant.sandbox" // a session that was started ahead becomes a request's sandbox
	DevicePair       Kind = "device.pair"
	DeviceRemove     Kind = "device.remove"
)

// Kinds lists the vocabulary, for flags and completion.
func Kinds() []Kind {
	return []Kind{
		SessionStart, SessionStop, NetDNS, NetConnect, HTTPRequest, MCPCall, SecretUse,
		HostexecRequest, HostexecResult, ApprovalRequest, ApprovalDecision,
		FileDenied, FileOpen, AutorunChanged, FileReview, Exec, PolicyLoad, GuardianStart, GuardianStop, ResidueAccepted,
		StateCheckpoint, StateRestore, StateFork, StateApply, StateUndo, StateMemory,
		TenantAdd, TenantStop, TenantRemove, TenantKeyAdd, TenantKeyRemove, TenantFile, TenantPort, TenantSandbox,
		TenantTemplate, TenantPerson,
		DevicePair, DeviceRemove,
	}
}

// Event is one record. V, Seq, Key, Prev and Hash are the log's to set, as is Time
// when it is zero.
type Event struct {
	V    int       `json:"v"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Session is the session's name; SessionID tells two of one name apart.
	Session   string `json:"session"`
	SessionID string `json:"session_id,omitempty"`
	Project   string `json:"project"`
	Agent     string `json:"agent"`
	Kind      Kind   `json:"kind"`
	Action    string `json:"action"`
	Resource  string `json:"resource"`
	Verdict   string `json:"verdict"` // allow|deny|ask, empty for what is no decision
	Rule      string `json:"rule"`
	Reason    string `json:"reason"`
	Policy    string `json:"policy"` // digest of the policy that decided

	// Suppressed is how many events like this one it stands for, which were counted
	// and not recorded.
	Suppressed uint64 `json:"suppressed,omitempty"`

	Host       string `json:"host,omitempty"`
	Port       uint16 `json:"port,omitempty"`
	Via        string `json:"via,omitempty"` // direct|connect|socks5|http|udp
	BytesUp    *int64 `json:"bytes_up,omitempty"`
	BytesDown  *int64 `json:"bytes_down,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
	Method     string `json:"method,omitempty"`
	Path       string `json:"path,omitempty"`
	Status     int    `json:"status,omitempty"`

	// Digest is of a host command: what was judged, and what ran; of the arguments
	// of an MCP call, whose text is Arguments where a person wants it recorded.
	Digest    string `json:"digest,omitempty"`
	Arguments string `json:"arguments,omitempty"`

	Isolation  string `json:"isolation,omitempty"`
	PID        int    `json:"pid,omitempty"`
	ExitStatus *int   `json:"exit_status,omitempty"`

	// Key names the guardian's key that Hash is made with; empty in records from before
	// there were keys.
	Key  string `json:"key,omitempty"`
	Prev string `json:"prev"` // hash of the record before; 64 zeros for the first
	Hash string `json:"hash"` // HMAC-SHA-256 of this line without its hash member; SHA-256 without a key
}
