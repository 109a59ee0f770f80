package egress

import "cloister/egress/internal/verdict"

// What is asked before something leaves, and what is answered.
type (
	Query     = verdict.Query
	QueryKind = verdict.QueryKind
	Once      = verdict.Once
	HTTP      = verdict.HTTP
	Login     = verdict.Login
	Verdict   = verdict.Verdict
	Opening   = verdict.Opening
	Decider   = verdict.Decider
)

// What is recorded of what the engine found out by itself.
type (
	Flow    = verdict.Flow
	Journal = verdict.Journal
)

// What changes an allowed request, and its answer.
type (
	Edit    = verdict.Edit
	Frames  = verdict.Frames
	Message = verdict.Message
	Header  = verdict.Header
	Refused = verdict.Refused
)

// The kinds of a Query.
const (
	Resolve = verdict.Resolve
	Connect = verdict.Connect
	Request = verdict.Request
	Recheck = verdict.Recheck
)

// How a connection reached the gate: Query.Via and Flow.Via.
const (
	ViaDNS     = verdict.ViaDNS
	ViaDirect  = verdict.ViaDirect
	ViaConnect = verdict.ViaConnect
	ViaSOCKS5  = verdict.ViaSOCKS5
	ViaHTTP    = verdict.ViaHTTP
	ViaUDP     = verdict.ViaUDP
)

// What becomes of TLS to a destination whose requests no rule reads.
const (
	OpenNothing = verdict.OpenNothing
	OpenAny     = verdict.OpenAny
	OpenHTTP    = verdict.OpenHTTP
)

// Unlisted is the rule of a verdict by none.
const Unlisted = verdict.Unlisted
