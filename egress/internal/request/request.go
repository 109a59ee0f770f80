// Package request holds the life of one request of HTTP: quota, decision, edits, sending,
// one line in the record. A codec carries the request in the words of its protocol.
//
// Promise: nothing is dialled or sent before the decision, and each request is recorded
// once, whatever fails. It reads and writes no bytes of a protocol.
package request

import (
	"context"
	"errors"
	"net/http"
	"time"

	"cloister/egress/internal/quota"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// A codec carries one request in the words of its protocol. The request calls each
// method at most once, in the order of their declaration; what it does not reach it
// leaves out, but for end after an allowed decision and refuse after a refusal.
type codec interface {
	// message is the request as its edits may change it, with the program's body. Nothing
	// goes up before send.
	Message() *verdict.Message
	// send passes the request on, as m says where that is not nil, and gives the head of
	// the answer: as its edits may change it where there are any, else nil. It is the one
	// that dials.
	Send(ctx context.Context, m *verdict.Message) (*verdict.Message, error)
	// pass gives the program the answer, as m says where that is not nil: its head, its
	// body, its trailers, and the frames of a connection that is upgraded.
	Pass(m *verdict.Message) error
	// end lets go of the server's answer, counts what passed, and says whose fault it is that
	// the request broke: by a *broken, or an error that refuses.
	End(err error) error
	// refuse answers the program in the place of the server. Where r is nil nothing can be
	// said any more: it breaks the answer off, so that half of it never looks whole.
	Refuse(r *refusal.Refusal)
}

// A Request is one request of a program from its head to its line in the record,
// whichever codec carries it. Its codec embeds it and fills in the first part.
type Request struct {
	Stream *stream.Stream
	Codec  codec
	Start  time.Time
	To     authority.Authority
	Via    string
	Method string
	Path   string       // for the record: without the query, which may carry secrets
	HTTP   verdict.HTTP // as all who judge it read it
	Length int64        // that the body says of itself; -1 for nothing
	Once   *verdict.Once
	Alone  bool // the connection carries no other request meanwhile, and ends with this one
	// What it holds of the session's memory: from before the decision on, and from there on.
	Early, Late int64

	Verdict  verdict.Answer // what allowed it
	Most     int64          // what the body may hold; 0 is no bound
	Over     *verdict.Form  // of a body that holds more
	Use      *quota.Host
	Status   int   // of the answer
	Up, Down int64 // bytes of bodies
	Answered bool  // the program has got a byte of an answer
	recorded bool
}

// A Broken says why a request that was allowed has ended early.
type Broken struct {
	Reason  string
	Silent  bool // the program is not answered: it or its connection has gone, or the server's end is passed on
	Handled bool // the codec has answered the program
	Breach  bool // the program broke the protocol: it is recorded as refused
}

func (b *Broken) Error() string { return b.Reason }

// An Undialed is the error of a dial that led to no server.
type Undialed struct{ Err error }

func (u *Undialed) Error() string { return u.Err.Error() }

func (u *Undialed) Unwrap() error { return u.Err }

// Serve is the life of a request: its quota, the decision, its edits, sending, and one
// line in the record. bad is why its head cannot be judged, nil where it can. True: the
// program has got the server's whole answer.
//
// Nothing is dialled or sent before the decision, and no edit, which may put credentials
// in, runs before it.
func (r *Request) Serve(ctx context.Context, bad error) bool {
	defer r.recordLost()
	e := r.Stream.Session
	if bad != nil {
		return r.Settle(bad)
	}
	if err := e.Quota.Begin(); err != nil {
		return r.Settle(err)
	}
	defer e.Quota.End()
	if r.Early > 0 {
		if err := e.Memory.Take(r.Early); err != nil {
			return r.Settle(Crowded(err))
		}
		defer e.Memory.Give(r.Early)
	}
	// What a verdict's edits hold for this request ends with it, read or not.
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	allowed, leave := r.decide(whole, cancel)
	defer leave()
	if !allowed {
		r.Codec.Refuse(new(refusal.Of(r.Verdict, r.To)))
		return false
	}
	if r.Late > 0 {
		if err := e.Memory.Wait(r.Late, ctx.Done()); err != nil {
			return r.Settle(r.Codec.End(Crowded(err)))
		}
		defer e.Memory.Give(r.Late)
	}
	return r.Settle(r.Codec.End(r.exchange(whole)))
}

// decide asks the Decider, which records a denial, and keeps the request where Recheck
// finds it until leave. It asks again if policy changed before the answer was in
// Recheck's sight: no request outlives the rule that let it through.
func (r *Request) decide(ctx context.Context, cancel context.CancelFunc) (allowed bool, leave func()) {
	s := r.Stream
	o := &stream.Underway{Query: verdict.Query{Kind: verdict.Request, Authority: r.To, Via: r.Via, Method: r.HTTP.Method,
		Path: r.Path, HTTP: &r.HTTP, Once: r.Once}}
	if !r.Alone {
		o.Cancel = cancel
	}
	leave = func() { s.Judged.End(o) }
	for {
		generation := s.Session.Generation.Load()
		r.Verdict = s.Session.Decider.Decide(ctx, o.Query)
		r.recorded = !r.Verdict.Allow
		if r.Verdict.Allow {
			s.Judged.Enter(o)
		}
		if r.Alone {
			s.Judged.Set(nil, s.Judged.Inspected() || r.Verdict.Allow && r.Verdict.Inspect)
		}
		if !r.Verdict.Allow || s.Session.Generation.Load() == generation {
			return r.Verdict.Allow, leave
		}
	}
}

// exchange has an allowed request edited and sent, and its answer edited and passed on.
func (r *Request) exchange(ctx context.Context) error {
	if err := r.bounded(); err != nil {
		return err
	}
	edits := r.Verdict.Edits
	var sent *verdict.Message
	if len(edits) > 0 {
		sent = r.Codec.Message()
		if err := sent.EditRequest(edits); err != nil {
			return err
		}
	}
	answer, err := r.Codec.Send(ctx, sent)
	if err != nil {
		return err
	}
	if answer != nil {
		if err := answer.EditResponse(edits); err != nil {
			return err
		}
	}
	return r.Codec.Pass(answer)
}

// bounded holds an allowed request to what its verdict and the session's quota let it be.
func (r *Request) bounded() error {
	if r.Verdict.Protocol != "" { // a proxy's client asked for a port where no one speaks HTTP
		return &verdict.Form{Status: http.StatusForbidden,
			Reason: "rules read the logins to this host by " + r.Verdict.Protocol + ", and this is HTTP"}
	}
	r.Most, r.Over = r.Stream.Session.Bound(r.Verdict, r.Length)
	if r.Most > 0 && r.Length > r.Most {
		return r.Over
	}
	r.Use = r.Stream.Session.Quota.Host(r.To.Host())
	return r.Stream.Session.Quota.Fits(r.Use, r.Length)
}

// Settle writes the request's line in the record, by how it ended, and gives the program
// what is due to it. It reports whether err is nil.
func (r *Request) Settle(err error) bool {
	if err == nil {
		r.closed(r.flow())
		return true
	}
	if lost, ok := errors.AsType[*Undialed](err); ok {
		r.settleUndialed(lost.Err)
		return false
	}
	if b, ok := errors.AsType[*Broken](err); ok {
		r.settleBroken(b)
		return false
	}
	r.Status = http.StatusBadRequest
	f := r.flow()
	f.Reason = err.Error()
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
	}
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
		f.Status = syntax.Status
	}
	reply := refusal.OfFlow(f)
	if edit, ok := errors.AsType[*verdict.Refused](err); ok {
		f.Status, f.Hints, reply = edit.Answered(), edit.Verdict.Hints, refusal.OfEdit(edit, r.To)
	}
	reply.Status = f.Status
	r.answerRefused(f, reply)
	return false
}

// settleUndialed ends a request whose server was not reached.
func (r *Request) settleUndialed(err error) {
	r.Status = refusal.StatusOf(err)
	f, forbidden := r.Stream.Session.Undialed(r.flow(), err)
	if forbidden {
		r.answerRefused(f, refusal.Undialed(f, err))
		return
	}
	r.closed(f)
	r.Codec.Refuse(new(refusal.Undialed(f, err)))
}

// settleBroken ends a request that was under way.
func (r *Request) settleBroken(b *Broken) {
	f := r.flow()
	f.Reason = b.Reason
	silent := b.Silent || r.Answered
	switch {
	case b.Breach:
		r.refused(f)
		r.Codec.Refuse(nil)
	case b.Handled:
		r.closed(f)
	case silent:
		r.closed(f)
		r.Codec.Refuse(nil)
	default:
		f.Status = http.StatusBadGateway
		r.closed(f)
		r.Codec.Refuse(&refusal.Refusal{Status: f.Status, Host: r.To.Host(), Port: r.To.Port(), Reason: f.Reason})
	}
}

// answerRefused records a refusal and tells the program where that can be.
func (r *Request) answerRefused(f verdict.Flow, reply refusal.Refusal) {
	if !r.refused(f) || r.Answered || r.Stream.Conns.Killed() != nil {
		r.Codec.Refuse(nil)
		return
	}
	r.Codec.Refuse(&reply)
}

// Refuses reports whether err is a word about the request, and no failure to carry it.
func Refuses(err error) bool {
	_, syntax := errors.AsType[*wire.SyntaxError](err)
	_, form := errors.AsType[*verdict.Form](err)
	_, edit := errors.AsType[*verdict.Refused](err)
	_, lost := errors.AsType[*Undialed](err)
	return edit || lost || (syntax || form) && !errors.Is(err, ErrServer)
}

// flow is the request as it is recorded.
func (r *Request) flow() verdict.Flow {
	return verdict.Flow{Kind: verdict.Request, Authority: r.To, Via: r.Via, Method: r.Method, Path: r.Path,
		Status: r.Status, Dialed: r.Stream.Server.Dialed, Up: r.Up, Down: r.Down, Start: r.Start,
		Duration: time.Since(r.Start)}
}

// closed records the end of what had been allowed.
func (r *Request) closed(f verdict.Flow) {
	r.recorded = true
	r.Stream.Session.Journal.Closed(f)
}

// refused records a refusal that is the gate's own, and whether it may be explained.
func (r *Request) refused(f verdict.Flow) bool {
	r.recorded = true
	return r.Stream.Session.Refused(f)
}

// recordLost writes the line of a request that a panic ended: whoever recovers it, if
// anyone does, does not know the request.
func (r *Request) recordLost() {
	if r.recorded {
		return
	}
	f := r.flow()
	f.Reason = errLost.Error()
	if r.Verdict.Allow {
		r.closed(f)
		return
	}
	r.refused(f)
}

var errLost = errors.New("the request was lost by a fault of the gate's own")

// ErrServer marks what the server did wrong.
var ErrServer = errors.New("the server's answer")

// Crowded refuses what there is no memory for.
func Crowded(err error) error {
	return &verdict.Form{Status: http.StatusServiceUnavailable, Reason: err.Error(), Retry: time.Second}
}

// MaxInterim bounds 1xx responses before the final one.
const MaxInterim = 32

// Repeatable reports whether a request of a method asks for nothing but an answer.
func Repeatable(method string) bool {
	return method == "GET" || method == "HEAD" || method == "OPTIONS"
}
