package api

import "time"

// Link answers POST /v1/window: an address that lets one browser in, once.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// WindowFirst to WindowLast are the ports of 127.0.0.1 that are the window's alone.
// A cloister's port is published at none of them: pages of one port would be pages
// of the window once it moved there, with all that a browser keeps for an address.
// They lie above those that Linux gives out (32768 to 60999).
const (
	WindowFirst = 61000
	WindowLast  = 64999
)

// WindowPort reports whether a port of 127.0.0.1 is the window's.
func WindowPort(port uint16) bool { return port >= WindowFirst && port <= WindowLast }

// Record is one event of the audit for a screen: every text in it is rendered
// already and has a bound. The record itself is what `audit export` gives.
type Record struct {
	Seq       uint64    `json:"seq"`
	Time      time.Time `json:"time"`
	Session   string    `json:"session,omitempty"`
	SessionID string    `json:"session_id,omitempty"`
	Project   string    `json:"project,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Kind      string    `json:"kind"`
	Action    string    `json:"action,omitempty"`
	Resource  string    `json:"resource,omitempty"`
	Verdict   string    `json:"verdict,omitempty"`
	Rule      string    `json:"rule,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Policy    string    `json:"policy,omitempty"`

	Host       string `json:"host,omitempty"`
	Port       uint16 `json:"port,omitempty"`
	Via        string `json:"via,omitempty"`
	BytesUp    *int64 `json:"bytes_up,omitempty"`
	BytesDown  *int64 `json:"bytes_down,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"`
	Method     string `json:"method,omitempty"`
	Path       string `json:"path,omitempty"`
	Status     int    `json:"status,omitempty"`
	Digest     string `json:"digest,omitempty"`
	PID        int    `json:"pid,omitempty"`
	ExitStatus *int   `json:"exit_status,omitempty"`
}

// Records answers GET /v1/audit, newest first. More says that older ones may
// fit: ask for those before Next.
type Records struct {
	Records []Record `json:"records"`
	More    bool     `json:"more"`
	Next    uint64   `json:"next,omitempty"`
	// Bad counts the records on the way that could not be read.
	Bad int `json:"bad,omitempty"`
}

// Verification answers GET /v1/audit/verify; the names are those of
// `cloister audit verify --json`.
type Verification struct {
	OK       bool   `json:"ok"`
	Records  uint64 `json:"records"`
	Segments int    `json:"segments"`
	Head     string `json:"head"`
	Problem  string `json:"problem,omitempty"`
	// Unkeyed is how many records from the first on are from before the guardian keyed
	// them, Proves what the verification proves, and against whom, in sentences.
	Unkeyed uint64   `json:"unkeyed"`
	Keys    []string `json:"keys"`
	Proves  []string `json:"proves"`
}

// PolicyFile is one file of the configuration, by its name below that folder.
type PolicyFile struct {
	Name   string `json:"name"` // config.yaml or policy/NAME.cedar
	Path   string `json:"path"`
	Text   string `json:"text"`
	Digest string `json:"digest"` // of the text; "" where there is no file yet
}

// PolicyDraft is the body of POST /v1/policy/files/check, and of
// POST /v1/policy/files, which writes it. Base is the Digest of the text that
// the person began with: a file that changed meanwhile is not written over.
type PolicyDraft struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Base string `json:"base"`
}

// RuleDraft is the body of POST /v1/policy/draft: a rule for what was seen.
type RuleDraft struct {
	Effect string `json:"effect"` // allow|ask|deny
	Host   string `json:"host"`
	Port   uint16 `json:"port"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

// DraftedRule answers it: the file as it is and as it would be, and what would
// become of the destination. Nothing is written.
type DraftedRule struct {
	Name   string      `json:"name"`
	Base   string      `json:"base"`
	Before string      `json:"before"`
	After  string      `json:"after"`
	Check  PolicyCheck `json:"check"`
	Now    Explanation `json:"now"`
	Then   Explanation `json:"then"`
}

// PolicyWords answers GET /v1/policy/words: what an editor completes with.
type PolicyWords struct {
	// Keys are the keys of config.yaml below each path, such as proxy.allow[].
	Keys  map[string][]string `json:"keys"`
	Words map[string][]string `json:"words"` // the values of a path that has a closed set
	Hosts []string            `json:"hosts"` // destinations that were seen, newest first
	Cedar []string            `json:"cedar"`
}

// HostCommand is one command of the host that was asked for since the guardian
// began.
type HostCommand struct {
	ID        string    `json:"id"`
	Session   string    `json:"session"`
	Line      string    `json:"line"`
	Dir       string    `json:"dir"`
	State     string    `json:"state"` // running|ended
	Status    int       `json:"status"`
	Why       string    `json:"why,omitempty"` // it was ended, or could not run
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Bytes is how much it wrote; what is kept of that is its end.
	Bytes int64 `json:"bytes"`
	// Output is there where one command is asked for. Cut is how many bytes before
	// it are not kept.
	Output []OutputPart `json:"output,omitempty"`
	Cut    int64        `json:"cut,omitempty"`
}

// OutputPart is lines of one stream, rendered.
type OutputPart struct {
	Err  bool   `json:"err,omitempty"`
	Text string `json:"text"`
}

// ChangedFile answers GET /v1/files/{seq}: a file that a session changed and that
// host programs obey, as it is now and as it was committed last.
type ChangedFile struct {
	Record Record `json:"record"`
	Before string `json:"before"`
	After  string `json:"after"`
	// From says what Before is; Note what is to be known of After.
	From string `json:"from,omitempty"`
	Note string `json:"note,omitempty"`
}

// StartRequest is the body of POST /v1/projects/start.
type StartRequest struct {
	Project string `json:"project"`
	Agent   string `json:"agent,omitempty"`
	Branch  string `json:"branch,omitempty"`
}

// StartAnswer answers it, with the name of the cloister.
type StartAnswer struct {
	Said string `json:"said"`
}
