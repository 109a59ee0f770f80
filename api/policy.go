package api

import "encoding/json"

// Policy answers GET /v1/policy (?session=NAME for a session's own).
type Policy struct {
	Digest  string   `json:"digest"`
	Mode    string   `json:"mode"`
	Cedar   string   `json:"cedar"`
	Notices []string `json:"notices,omitempty"`
}

// PolicyDigest answers GET /v1/policy/digest.
type PolicyDigest struct {
	Digest string `json:"digest"`
}

// PolicyCheck answers POST /v1/policy/check: would the files on disk load?
type PolicyCheck struct {
	OK       bool      `json:"ok"`
	Digest   string    `json:"digest,omitempty"`
	InForce  bool      `json:"in_force"` // the digest is the one that rules now
	Problems []Problem `json:"problems,omitempty"`
	Notices  []string  `json:"notices,omitempty"`
	// Statements are the policies of the Cedar files, with what keeps each.
	// Residue are the words that accept those which nothing keeps.
	Statements []Statement `json:"statements,omitempty"`
	Residue    []string    `json:"residue"`
}

// Statement is one policy of a Cedar file with what keeps it on this host.
type Statement struct {
	Rule      string   `json:"rule"`
	File      string   `json:"file"`
	Line      int      `json:"line"`
	Column    int      `json:"column"`
	Effect    string   `json:"effect"`
	Actions   []string `json:"actions"`
	Resources []string `json:"resources,omitempty"`
	Hold      string   `json:"hold"` // enforced, view, partial or residue
	By        string   `json:"by,omitempty"`
	Why       string   `json:"why,omitempty"`
	Residue   string   `json:"residue,omitempty"` // the word for --accept, where it is one
}

// Problem is one thing wrong in one file.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// ExplainRequest is the body of POST /v1/policy/explain.
type ExplainRequest struct {
	Connect string `json:"connect"` // HOST[:PORT], 443 unless said
	// Method makes it a question about a request for Path and Query, as they
	// would be sent, with these Headers ("Name: value").
	Method  string   `json:"method,omitempty"`
	Path    string   `json:"path,omitempty"`
	Query   string   `json:"query,omitempty"`
	Headers []string `json:"headers,omitempty"`
	// Login makes it a question about who logs in by another protocol than HTTP.
	Login   *LoginRequest `json:"login,omitempty"`
	Session string        `json:"session,omitempty"` // judge by that session's policy
	Project string        `json:"project,omitempty"`
	Agent   string        `json:"agent,omitempty"`
	// MCP makes it a question about a call to an MCP server, and Secret one about
	// that secret in the request.
	MCP    *ExplainCall `json:"mcp,omitempty"`
	Secret string       `json:"secret,omitempty"`
	// File makes it a question about a path inside.
	File *ExplainFile `json:"file,omitempty"`
	// Projects are the files of a project, as a session of it would bring them.
	Projects []ProjectFile `json:"projects,omitempty"`
}

// ExplainCall is a call to an MCP server: of a tool unless Feature says prompt,
// resource, sampling, elicitation or roots.
type ExplainCall struct {
	Server    string          `json:"server"`
	Feature   string          `json:"feature,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// ExplainFile is a use of a file: read unless Use says write or execute.
type ExplainFile struct {
	Path string `json:"path"`
	Use  string `json:"use,omitempty"`
}

// LoginRequest says who wants what by another protocol than HTTP: a database of
// PostgreSQL; by SSH a repository of git's, which Push writes, or only to log in.
type LoginRequest struct {
	Protocol   string `json:"protocol"`
	User       string `json:"user"`
	Database   string `json:"database,omitempty"`
	Repository string `json:"repository,omitempty"`
	Push       bool   `json:"push,omitempty"`
}

// Explanation is a verdict in full.
type Explanation struct {
	Authority  string   `json:"authority"`
	Subject    string   `json:"subject,omitempty"` // what is explained, where that is no destination
	Method     string   `json:"method,omitempty"`
	Path       string   `json:"path,omitempty"`  // in its one spelling
	Login      string   `json:"login,omitempty"` // who wants what, in words
	Effect     string   `json:"effect"`
	Rule       string   `json:"rule,omitempty"`
	Source     string   `json:"source,omitempty"`
	File       string   `json:"file,omitempty"`
	Line       int      `json:"line,omitempty"`
	Column     int      `json:"column,omitempty"`
	Reason     string   `json:"reason"`
	Hints      []string `json:"hints,omitempty"`
	WouldDeny  bool     `json:"would_deny,omitempty"`
	Diagnostic string   `json:"diagnostic,omitempty"`
	// Inspect says that rules read the requests to this destination.
	Inspect bool   `json:"inspect,omitempty"`
	Mode    string `json:"mode"`
	Digest  string `json:"digest"`
	// Matches are the rules that name the destination, in the order in which
	// they are weighed.
	Matches []Match `json:"matches,omitempty"`
	// Rewrites are the headers that the request would get or lose.
	Rewrites []Rewrite `json:"rewrites,omitempty"`
	// Notices are what else a person should know of the policy that was asked.
	Notices []string `json:"notices,omitempty"`
}

// Rewrite is one header that an allowed request gets, or loses. Its value is not
// told.
type Rewrite struct {
	Header string `json:"header"`
	Remove bool   `json:"remove,omitempty"`
	Rule   string `json:"rule"`
	Place  string `json:"place,omitempty"`
}

// Match is one rule that names a destination.
type Match struct {
	Effect    string `json:"effect"`
	Rule      string `json:"rule"`
	Place     string `json:"place,omitempty"` // source or file:line
	Reason    string `json:"reason,omitempty"`
	Decides   bool   `json:"decides,omitempty"`
	WrongPort bool   `json:"wrong_port,omitempty"` // it names the host, but not this port
	// Note says why it has no say, if it has none.
	Note string `json:"note,omitempty"`
}
