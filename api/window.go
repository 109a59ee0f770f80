package api

import "time"

// Link answers POST /v1/window: an address that lets one browser in, once.
type Link struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

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
