package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// SessionRequest asks for a session: the body of POST /v1/sessions, with
// Upgrade: cloister-shim/1.
type SessionRequest struct {
	// Name is what the person calls it; empty lets the guardian make one from
	// the project's folder. Unique among live sessions.
	Name string `json:"name,omitempty"`
	// Project is the host path of the project's top folder: its identity.
	Project string `json:"project"`
	// Path is the top folder that is shown: a worktree's, or the project's,
	// which an empty one stands for.
	Path   string `json:"path,omitempty"`
	Branch string `json:"branch,omitempty"`
	Agent  string `json:"agent,omitempty"`
	// Terminal says that the session has a terminal of its own, to attach to.
	// One folder has one such session of an agent, unless it is named: a
	// second request is refused with [CodeRunning] and the first one's name.
	Terminal  bool     `json:"terminal,omitempty"`
	Isolation string   `json:"isolation"`
	Mode      string   `json:"mode,omitempty"` // enforce|shadow|record; empty = the configured default
	Workspace string   `json:"workspace,omitempty"`
	Command   []string `json:"command,omitempty"`
	// Image is the digest of the image that / is, for the record; empty for the
	// host's own system.
	Image string `json:"image,omitempty"`
	// Allow and Deny are this session's --allow and --deny, DOMAIN[:PORT].
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
	// Network false is --no-network: the session has no egress at all, not
	// even DNS. The zero value is the safe one.
	Network bool `json:"network"`
	// Cedar are this session's --policy files.
	Cedar []CedarFile `json:"cedar,omitempty"`
	// Narrow are statements that forbid, which [PathSessions]/{name}/narrow replaces while
	// the session lives.
	Narrow []CedarFile `json:"narrow,omitempty"`
	// Projects are the files that speak of the project, the person's own and the
	// repository's.
	Projects []ProjectFile `json:"projects,omitempty"`
	// Accepted are the residues a person accepted by name.
	Accepted []string `json:"accepted,omitempty"`
	// Closed are the statements of Cedar files about files and programs that the
	// session's view keeps, by their rules.
	Closed []string `json:"closed,omitempty"`
	// Reports says that the session closes nothing: what is forbidden is reported, and let pass.
	Reports bool `json:"reports,omitempty"`
	// Writable are host folders besides the project that the session can write:
	// no program of theirs runs on the host for it.
	Writable []string `json:"writable,omitempty"`
	// Publish are the ports inside that the shim makes reachable on the host's
	// loopback.
	Publish []Published `json:"publish,omitempty"`
	// Beside says that the session is a service beside an agent's: it is given no secret, whose
	// placeholders are the agent's.
	Beside bool `json:"beside,omitempty"`
	// ShimPID is for the person's eyes; the guardian trusts only the peer
	// credentials of the socket.
	ShimPID int `json:"shim_pid,omitempty"`
	// Memory is set for a session that goes on from the memory of another.
	Memory *Memory `json:"memory,omitempty"`
	// Resume is set by a link whose guardian died: the session lives already.
	Resume *Resume `json:"resume,omitempty"`
}

// Memory is an image that a session's memory was kept in: the digest of all of it, and the
// seal of the guardian that made it.
type Memory struct {
	Session    string `json:"session"` // the id of the session that it was taken of
	Checkpoint string `json:"checkpoint"`
	Digest     string `json:"digest"`
	Seal       []byte `json:"seal"`
}

// Bound is what the seal of an image is good for.
func (m Memory) Bound() string {
	return "memory\n" + m.Session + "\n" + m.Checkpoint + "\n" + m.Digest
}

// ProjectFile is one project's file, by content.
type ProjectFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Narrowed says that only what it takes away applies: no person agreed to
	// the rest.
	Narrowed bool `json:"narrowed,omitempty"`
}

// CedarFile is one policy file, by content: the guardian does not read paths
// that a caller names.
type CedarFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// SessionNarrow is the body of POST /v1/sessions/{name}/narrow: what is taken away from
// the session's policy from now on, instead of its [SessionRequest.Narrow].
type SessionNarrow struct {
	Narrow []CedarFile `json:"narrow"`
}

// MaxNarrow bounds the text of all statements of SessionNarrow, in bytes.
const MaxNarrow = 256 << 10

// Published is a TCP port of the host's 127.0.0.1 that leads to a port of the
// inside's loopback.
type Published struct {
	HostPort uint16 `json:"host_port"`
	Port     uint16 `json:"port"`
}

// String is written as docker's list writes it.
func (p Published) String() string { return fmt.Sprintf("127.0.0.1:%d->%d", p.HostPort, p.Port) }

// Resume re-offers a living session to the next guardian.
type Resume struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	CreatedAt  time.Time       `json:"created_at"`
	Handle     string          `json:"handle,omitempty"`
	CommandPID int             `json:"command_pid,omitempty"`
	Exec       json.RawMessage `json:"exec,omitempty"`
	// Summary is what earlier guardians had counted, so that the person's
	// summary at the end covers the whole session.
	Summary SessionSummary `json:"summary"`
	// Secrets are the placeholders that the session has.
	Secrets []Placeholder `json:"secrets,omitempty"`
	// Sealed is SessionGrant.Sealed, as it was given.
	Sealed []byte `json:"sealed,omitempty"`
}

// SessionGrant is the guardian's word that the session may be built.
type SessionGrant struct {
	ID           string    `json:"id"` // 32 lower-case hex digits, random
	Name         string    `json:"name"`
	PolicyDigest string    `json:"policy_digest"`
	Mode         string    `json:"mode"`
	CreatedAt    time.Time `json:"created_at"`
	// Notices are for the person, on stderr: a policy file that did not load
	// and the last good one in force, rules that nothing enforces yet.
	Notices []string `json:"notices,omitempty"`
	// Authority is the certificate, PEM, that programs inside must trust beside
	// the host's: it signs for servers in connections that are opened. Empty
	// without network, and for a session that was taken back.
	Authority string `json:"authority,omitempty"`
	// KnownHosts is what clients of SSH inside must know beside their own, where rules
	// read connections that speak it.
	KnownHosts string `json:"known_hosts,omitempty"`
	// Postgres says that rules read logins of PostgreSQL: the TLS that its clients see
	// is the session's own, so nothing can be bound to it.
	Postgres bool `json:"postgres,omitempty"`
	// Secrets are the placeholders of the session, Env the variables that hold
	// them inside.
	Secrets []Placeholder     `json:"secrets,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Logins are what programs that look for a login by host find inside.
	Logins []PasswordLogin `json:"logins,omitempty"`
	// LoginFiles are what programs find in the home inside.
	LoginFiles []LoginFile `json:"login_files,omitempty"`
	// Sealed is what the next guardian needs to go on with the session, which only a
	// guardian can read: the shim keeps it.
	Sealed []byte `json:"sealed,omitempty"`
}

// State of a session.
type State string

// The closed set of states.
const (
	StateStarting State = "starting"
	StateRunning  State = "running"
	StateStopped  State = "stopped"
	StateFailed   State = "failed"
)

// SessionInfo is one line of `cloister list --json`.
type SessionInfo struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Project   string    `json:"project"`
	Path      string    `json:"path"`
	Branch    string    `json:"branch"`
	Agent     string    `json:"agent"`
	Terminal  bool      `json:"terminal"`
	Isolation string    `json:"isolation"`
	Mode      string    `json:"mode"`
	State     State     `json:"state"`
	Workspace string    `json:"workspace"`
	CreatedAt time.Time `json:"created_at"`
	// PID is the shim's: the host process that owns the session's life.
	PID int `json:"pid"`
	// Handle names the cloister to its driver, for exec; empty until the command runs.
	// CommandPID is the host's number for process 1 inside, 0 where this host has none.
	Handle     string      `json:"handle,omitempty"`
	CommandPID int         `json:"command_pid,omitempty"`
	Command    []string    `json:"command,omitempty"`
	Network    bool        `json:"network"`
	Policy     string      `json:"policy_digest,omitempty"`
	Publish    []Published `json:"publish,omitempty"`
	// PendingAsks is how many questions of it wait for a person now.
	PendingAsks int `json:"pending_asks,omitempty"`
	// AutorunChanged are files of the project that it changed and that programs of
	// the host may run, the first of them; known at its end.
	AutorunChanged []string  `json:"autorun_changed,omitempty"`
	StoppedAt      time.Time `json:"stopped_at,omitzero"`
	ExitStatus     *int      `json:"exit_status,omitempty"`
	// Reason says why a session failed, or who stopped it.
	Reason string `json:"reason,omitempty"`
	// Limits bound a live session's network, Usage is what it has used.
	Limits *SessionLimits `json:"limits,omitempty"`
	Usage  *SessionUsage  `json:"usage,omitempty"`
}

// SessionLimits are the bounds of one session's network; 0 is none.
type SessionLimits struct {
	RequestsPerMinute  int   `json:"requests_per_minute"`
	ConcurrentRequests int   `json:"concurrent_requests"`
	NamesPerMinute     int   `json:"names_per_minute"`
	MaxRequestBytes    int64 `json:"max_request_bytes"`
	UploadSession      int64 `json:"upload_session"`
	UploadHost         int64 `json:"upload_host"`
}

// SessionUsage is what one session's network has used since its guardian began.
type SessionUsage struct {
	Requests           int64 `json:"requests"`
	RequestsLastMinute int   `json:"requests_last_minute"`
	ConcurrentRequests int   `json:"concurrent_requests"`
	BytesUp            int64 `json:"bytes_up"`
	Names              int   `json:"names"`
	Limited            int64 `json:"limited"` // refused because of a limit
}

// ExecInfo answers GET /v1/sessions/{name}: what `exec` needs to enter.
type ExecInfo struct {
	SessionInfo
	// Exec is what the shim said by Describe, untouched.
	Exec json.RawMessage `json:"exec,omitempty"`
}

// SessionEnd is the shim's last word.
type SessionEnd struct {
	ExitStatus int `json:"exit_status"`
	// AutorunChanged lists files that a host program would obey and that the
	// session changed, relative to the project.
	AutorunChanged []string `json:"autorun_changed,omitempty"`
	// Failure says why the session could not be built or was lost; empty for
	// a command that ran, whatever its exit status.
	Failure string `json:"failure,omitempty"`
	// Stopped says who or what asked for the end of a command that ran; empty for
	// one that ended by itself.
	Stopped string `json:"stopped,omitempty"`
}

// SessionSummary is the guardian's count of what the session asked for.
type SessionSummary struct {
	Allowed  int       `json:"allowed"`
	Asked    int       `json:"asked"`
	Denied   int       `json:"denied"`
	Refusals []Refusal `json:"refusals,omitempty"`
	// More is how many further destinations were refused beyond Refusals,
	// which is bounded.
	More int `json:"more,omitempty"`
	// Hosts are those to which something was allowed, the first ones: bounded too.
	Hosts []HostCount `json:"hosts,omitempty"`
	// Unauthorized are the secrets that servers answered with 401 when they came last.
	Unauthorized []SecretRefused `json:"unauthorized,omitempty"`
	// Brought are files on branches that came back, as BRANCH:PATH, which programs of the host run or obey
	// once they are checked out; MoreBrought is how many further ones there are.
	Brought     []string `json:"brought,omitempty"`
	MoreBrought int      `json:"more_brought,omitempty"`
}

// SecretRefused is a secret that a server does not take.
type SecretRefused struct {
	Secret string `json:"secret"`
	Host   string `json:"host"`
}

// HostCount is how often something was allowed to one host.
type HostCount struct {
	Host  string `json:"host"`
	Count int    `json:"count"`
}

// Refusal is one destination that was refused, however often.
type Refusal struct {
	Host   string   `json:"host"`
	Port   int      `json:"port,omitempty"` // 0: refused at the name, before any port
	Effect string   `json:"effect"`         // deny|ask
	Reason string   `json:"reason"`
	Rule   string   `json:"rule,omitempty"`
	Place  string   `json:"place,omitempty"` // file:line of the rule
	Hints  []string `json:"hints,omitempty"`
	Count  int      `json:"count"`
}

// FileEvent is what the kernel judged in a session: something that it refused, or a program
// that was executed.
type FileEvent struct {
	When    time.Time `json:"when"`
	Op      string    `json:"op"`   // open, create, execute, …
	Path    string    `json:"path"` // a name of the object, for people
	Rule    string    `json:"rule,omitempty"`
	Why     string    `json:"why,omitempty"` // empty for what was not refused
	Program string    `json:"program,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Argv    []string  `json:"argv,omitempty"`   // as the program was called; advice
	Let     bool      `json:"let,omitempty"`    // it is forbidden, and was let pass
	Unseen  string    `json:"unseen,omitempty"` // why so many as More says were not seen one by one
	More    uint64    `json:"more,omitempty"`   // like it, which are not listed
}

// FileQuestion is what a person is asked about a file that is held closed until the answer.
type FileQuestion struct {
	Path    string    `json:"path"`
	Source  string    `json:"source,omitempty"` // the host's file, where it has another path
	Write   bool      `json:"write,omitempty"`  // to read and to write; otherwise to read
	Rule    string    `json:"rule,omitempty"`
	Program string    `json:"program,omitempty"` // as it calls itself
	PID     int       `json:"pid,omitempty"`
	Size    int64     `json:"size"`
	Time    time.Time `json:"time"`             // when it was last written
	Digest  string    `json:"digest,omitempty"` // of the content that is handed in
	Execute bool      `json:"execute,omitempty"`
	RunBy   string    `json:"run_by,omitempty"` // the interpreter that a program's content names
}

// FileAnswer is what became of it.
type FileAnswer struct {
	Allow  bool   `json:"allow"`
	Reason string `json:"reason"`
}

// FrameType says which member of a Frame is set.
type FrameType string

// Frames from the shim to the guardian.
const (
	FrameArm      FrameType = "arm"      // with the listeners' descriptors (SCM_RIGHTS)
	FrameStarted  FrameType = "started"  // the command runs
	FrameDescribe FrameType = "describe" // what exec needs
	FrameEnd      FrameType = "end"
	FrameAck      FrameType = "ack"     // counts arrived; the next may be sent
	FrameFile     FrameType = "file"    // the kernel judged a file or a program
	FrameApplied  FrameType = "applied" // what became of FrameFiles
)

// Frames from the guardian to the shim.
const (
	FrameGrant   FrameType = "grant"
	FrameArmed   FrameType = "armed"
	FrameStop    FrameType = "stop"
	FrameCounts  FrameType = "counts" // running totals, so that a crash of the guardian loses none
	FrameSealed  FrameType = "sealed" // instead of SessionGrant.Sealed
	FrameNarrow  FrameType = "narrow" // instead of SessionRequest.Narrow and SessionGrant.Sealed
	FrameFiled   FrameType = "filed"  // events of files were recorded, up to Frame.Filed
	FrameFiles   FrameType = "files"  // statements about files and programs are others from here on
	FrameNotice  FrameType = "notice" // for the person at the session
	FrameSummary FrameType = "summary"
	FrameError   FrameType = "error"
)

// Frame is one line on a link.
type Frame struct {
	Type    FrameType       `json:"type"`
	Arm     *Arm            `json:"arm,omitempty"`
	Started *Started        `json:"started,omitempty"`
	Exec    json.RawMessage `json:"exec,omitempty"`
	File    *FileEvent      `json:"file,omitempty"`
	Filed   uint64          `json:"filed,omitempty"` // the number of File, from 1 on in each session
	Again   bool            `json:"again,omitempty"` // an earlier guardian may have recorded File
	End     *SessionEnd     `json:"end,omitempty"`
	Grant   *SessionGrant   `json:"grant,omitempty"`
	Stop    *StopRequest    `json:"stop,omitempty"`
	Sealed  []byte          `json:"sealed,omitempty"`
	Narrow  []CedarFile     `json:"narrow,omitempty"`
	Files   *FileRules      `json:"files,omitempty"`
	Applied *Applied        `json:"applied,omitempty"`
	Notice  string          `json:"notice,omitempty"`
	Summary *SessionSummary `json:"summary,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// FileRules are the configuration's Cedar files that speak of files and programs, to be put in
// force in a running session.
type FileRules struct {
	Number uint64      `json:"number"` // of the question
	Cedar  []CedarFile `json:"cedar"`
}

// Applied is what became of FileRules.
type Applied struct {
	Number uint64 `json:"number"`
	Reason string `json:"reason,omitempty"` // why they are not in force, in one line; nothing has changed then
	Same   bool   `json:"same,omitempty"`   // they say what was in force already
	Ended  bool   `json:"-"`                // the session is over
}

// ListenerKind names what a passed descriptor is.
type ListenerKind string

// The closed set of listeners.
const (
	ListenTCP4    ListenerKind = "tcp4"
	ListenTCP6    ListenerKind = "tcp6"
	ListenDNS     ListenerKind = "dns"
	ListenDNS6    ListenerKind = "dns6"
	ListenDNSTCP  ListenerKind = "dnstcp"
	ListenDNSTCP6 ListenerKind = "dnstcp6"
	// ListenRefusals is the kernel's log of the datagrams that it refused.
	ListenRefusals ListenerKind = "refusals"
	// ListenStreams and ListenDNSStreams are of a gate that is not on this host: unix sockets,
	// to which connections come by way of the shim (internal/origin).
	ListenStreams    ListenerKind = "streams"
	ListenDNSStreams ListenerKind = "dns-streams"
)

// Arm hands the gate's listeners over: the descriptors travel with the frame,
// in the order of Listeners.
type Arm struct {
	Listeners []ListenerKind `json:"listeners"`
}

// Started tells that the command runs.
type Started struct {
	Handle string `json:"handle"`
	PID    int    `json:"pid,omitempty"`
}
