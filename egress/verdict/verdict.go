// Package verdict holds what is asked before something leaves a cloister (Query), what
// is answered (Answer), how the answer changes what passes (Edit), and what is
// recorded of what passed (Flow).
//
// Promise: the zero Verdict is a deny, and the fields that frame or route a message can be
// changed by no Edit. It decides nothing, and neither sends nor records.
package verdict

// An Answer is the Decider's, to a Query. The zero Answer is a deny.
type Answer struct {
	Allow  bool
	Effect string   // "allow", "ask" or "deny"
	Rule   string   // the rule that spoke, Unlisted when none did
	Place  string   // file:line of that rule, or of the nearest
	Reason string   // one sentence for the person
	Hints  []string // the exact words that would allow it
	// Inspect says that rules read the requests to this destination: TLS is
	// opened, and what is no HTTP is refused. Of a request: its path is sent on
	// as it was judged.
	Inspect bool
	// Open says what becomes of TLS where Inspect does not say it.
	Open Opening
	// Protocol names the one, of those that are read here, by which a connection
	// must say who wants what before anything goes up; it is then asked about
	// once more, with a Login.
	Protocol string
	// Identity is what logs in by SSH, in the words of SSH.Identity; empty for
	// nothing. HostKeys are the server's, where the rule has them.
	Identity string
	HostKeys []string
	// AskFirst says that a person is asked each time that the identity signs.
	AskFirst bool
	// MaxBytes bounds the request's body; 0 is no bound.
	MaxBytes int64
	// Edits change an allowed request, and its answer.
	Edits []Edit
}

// Unlisted is the rule of a verdict by none.
const Unlisted = "unlisted"

// An Opening says what becomes of TLS to a destination whose requests no rule reads.
type Opening int

const (
	// OpenNothing passes TLS on as it is. A ClientHello with an encrypted one in it,
	// which may name another server, is inspected all the same.
	OpenNothing Opening = iota
	// OpenAny ends TLS here. HTTP in it is judged request by request; another
	// protocol is relayed, in TLS on both sides.
	OpenAny
	// OpenHTTP ends TLS here, and relays HTTP only.
	OpenHTTP
)
