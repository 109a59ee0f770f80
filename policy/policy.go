// Package policy decides whether a cloister may reach a destination.
//
// It promises that Decide cannot fail: it is a pure function of a compiled
// Snapshot with a Request, the zero Verdict is deny, a nil Snapshot denies, a
// Cedar policy that errors denies (cedar-go itself skips it). The order is
// forbid, a person's remembered deny, a person's allow (remembered, or a word for
// the session), ask, allow, what no rule names.
// Compile refuses what it does not understand, with file, line, column.
//
// It does NOT read files, parse YAML, know the time, log, ask a person or
// reach the network; addresses that no rule may open (loopback, metadata) are
// the egress room's, since a name says nothing about where it resolves to.
//
// Most readers want Compile, Decide or Explain.
package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/reading"
	"cloister/internal/source"
)

// Effect is what a rule or a verdict says. Its zero value is Deny.
type Effect uint8

// The three effects.
const (
	Deny Effect = iota
	Ask
	Allow
)

func (e Effect) String() string {
	switch e {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "effect(" + strconv.Itoa(int(e)) + ")"
}

// ParseEffect is the inverse of String.
func ParseEffect(s string) (Effect, error) {
	for _, e := range []Effect{Deny, Ask, Allow} {
		if s == e.String() {
			return e, nil
		}
	}
	return Deny, fmt.Errorf("effect %q: want allow, ask or deny", s)
}

// Mode says what becomes of a refusal. Its zero value is Enforce.
type Mode uint8

// The modes. Shadow and Record let everything pass and mark what Enforce would
// have refused.
const (
	Enforce Mode = iota
	Shadow
	Record
)

func (m Mode) String() string {
	switch m {
	case Enforce:
		return "enforce"
	case Shadow:
		return "shadow"
	case Record:
		return "record"
	}
	return "mode(" + strconv.Itoa(int(m)) + ")"
}

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Enforce, Shadow, Record} {
		if s == m.String() {
			return m, nil
		}
	}
	return Enforce, fmt.Errorf("mode %q: want enforce, shadow or record", s)
}

// Rule is one line of YAML or one flag: a Domain (name, address or wildcard)
// or a CIDR. Ports nil means 443 and 80 for a rule that widens, every port for
// a rule that denies.
//
// Methods, Paths, Headers, Query and Bytes make it a rule about requests: it
// speaks of those that fit all of them, and a connection to its host is opened
// and read. An allow rule about requests narrows every allow rule that names its
// host less exactly, or as exactly in a preset: what it does not name is then
// unlisted.
type Rule struct {
	Effect       Effect
	Domain, CIDR string
	Ports        []uint16
	Methods      []string
	Paths        []string          // globs, urlpath.ParseGlob
	Headers      map[string]string // name to a text with *; of several fields each must fit
	Query        map[string]string // key to a text with *; of several values each must fit
	// Objects is a store's interface: of the requests to it those that read and write
	// objects of a bucket, and do no more (reading.Request.Leaves).
	Objects reading.StoreKind
	Bytes   int64 // an allowed request's body at most; 0 is no bound
	// Tunnel says that TLS is passed on uninspected (client certificates, pinned
	// keys). A deny rule about requests to such a host closes it. Inspect says that
	// TLS is inspected, which is so where no rule says Tunnel; it stands before one
	// that does.
	Tunnel, Inspect bool
	// Protocol makes it a rule about logins by a protocol other than HTTP: who
	// (Users) wants what (Databases), each a text with *; empty is any. An allow
	// rule narrows every allow rule that names its host less exactly.
	//
	// Of SSH, what is to run: Commands are texts with *, Shell and subsystems among
	// them; Repositories are paths of git's, as globs, and Git is fetch or push.
	// Identity is what logs in, HostKeys are the server's; Use is allow or ask: whether
	// a person is asked each time that the identity signs.
	Protocol                    string
	Users, Databases            []string
	Commands, Repositories, Git []string
	Identity, Use               string
	HostKeys                    []string
	Preset                      bool // written by us, not by a person: a person's rule is the more exact
	// Answer marks a person's remembered answer to an ask: a deny stands behind
	// every forbid, an allow before every ask.
	Answer bool
	// Tool, an MCPSubject, makes it an answer about a tool of an MCP server, and
	// nothing else.
	Tool   string
	Origin source.Position
}

// CedarFile is the text of a user's policy file; Name is how it is called in
// messages.
type CedarFile struct {
	Name string
	Text []byte
}

// Input is everything a Snapshot is compiled from.
type Input struct {
	Rules    []Rule
	Rewrites []RewriteRule
	Cedar    []CedarFile
	Servers  []MCPServer
	Unlisted Effect // for a name that no rule names: Ask or Deny; an address is always denied
	Mode     Mode
}

// Action is what a request wants to do. The zero value is no action, so a
// request that forgot to say is denied.
type Action uint8

// The actions that are judged today.
const (
	// NetworkConnect is a connection to the Authority.
	NetworkConnect Action = iota + 1
	// NetworkResolve is a name asked of DNS: the best effect that any port of
	// that name would get, since the answer shows nothing else. The port of
	// the Authority does not matter.
	NetworkResolve
	// HTTPRequest is the request HTTP to the Authority.
	HTTPRequest
	// McpCall is the call MCP to a server behind the Authority, or by it.
	McpCall
	// SecretUse is the secret of Use in the request HTTP to the Authority.
	SecretUse
)

func (a Action) String() string {
	switch a {
	case NetworkConnect:
		return "NetworkConnect"
	case NetworkResolve:
		return "NetworkResolve"
	case HTTPRequest:
		return "HttpRequest"
	case McpCall:
		return "McpCall"
	case SecretUse:
		return "SecretUse"
	}
	return "action(" + strconv.Itoa(int(a)) + ")"
}

// Request is one question.
type Request struct {
	Action    Action
	Authority authority.Authority
	// Session, Project and Agent are the principal that Cedar policies see:
	// Session::"…" in Project::"…", in Agent::"…".
	Session, Project, Agent string
	// HTTP is what an HTTPRequest asks for.
	HTTP HTTP
	// MCP is what an McpCall asks for.
	MCP *MCPCall
	// Use is what a SecretUse asks for.
	Use *Use
	// Login is what a NetworkConnect has said at its beginning, nil before that.
	Login *reading.Login
}

// HTTP is the part of a request that rules speak of. One whose path has no single
// reading is denied where a rule reads paths.
type HTTP = reading.Request

// Verdict is the answer. Its zero value is deny.
type Verdict struct {
	Effect Effect
	// Rule names the rule that spoke, RuleUnlisted where none did.
	Rule   string
	Origin source.Position
	// Reason is one line for a person.
	Reason string
	// Hints are the exact words that would allow it; empty when it is allowed.
	Hints []string
	// WouldDeny is set in shadow and record mode: Effect is Allow, but enforce
	// would have refused or asked. Rule, Reason and Hints tell of that.
	WouldDeny bool
	// Diagnostic says why a policy could not be evaluated; such a verdict
	// denies.
	Diagnostic string
	// Inspect says that rules speak of requests to this destination: a
	// connection may be used only by something that asks about each.
	Inspect bool
	// Tunnel says that the rule which allows a connection passes TLS on uninspected.
	Tunnel bool
	// Judged says that some of these rules allow, ask or deny; those that only
	// rewrite do not.
	Judged bool
	// Protocol is the one by which a connection must say who wants what: whoever
	// lets it through asks again, with a Login. Empty where nothing depends on it.
	Protocol string
	// Identity is what logs in by SSH, HostKeys are the server's; empty where the
	// rule does not say.
	Identity string
	HostKeys []string
	// AskFirst says that a person is asked each time that the identity signs.
	AskFirst bool
	// Rewrites are what an allowed request is changed by.
	Rewrites []Rewrite
	// MaxBytes bounds an allowed request's body; 0 is no bound.
	MaxBytes int64
}

// RuleAt is the rule that spoke, with where it was written.
func (v Verdict) RuleAt() string {
	if place := v.Origin.String(); place != "" && v.Rule != "" && v.Rule != RuleUnlisted {
		return v.Rule + " (" + place + ")"
	}
	return v.Rule
}

// problem is something wrong in an Input. Compile joins several.
func problem(o source.Position, msg, hint string) *source.Problem {
	if o.File == "" {
		o.File = o.Source
	}
	return &source.Problem{Position: source.Position{File: o.File, Line: o.Line, Column: o.Column}, Msg: msg, Hint: hint}
}

// Note is something a person should know about a policy that loads: a rule
// that nothing enforces yet, a permit that is very wide.
type Note struct {
	Origin source.Position
	Rule   string
	Effect Effect
	Action string // Cedar's name of the action
	Msg    string
}

func portList(ports []uint16) string {
	var b strings.Builder
	for i, p := range ports {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(p)))
	}
	return b.String()
}

func defaultPorts() []uint16 { return []uint16{443, 80} }

func isDefaultPort(p uint16) bool { return p == 443 || p == 80 }

// cleanPorts sorts and deduplicates; 443 before 80 when they are the default,
// as people write them.
func cleanPorts(ports []uint16) []uint16 {
	out := slices.Clone(ports)
	slices.Sort(out)
	out = slices.Compact(out)
	if slices.Equal(out, []uint16{80, 443}) {
		return defaultPorts()
	}
	return out
}
