package egress

import (
	"context"
	"errors"
	"net/http"
	"time"

	"cloister/egress/internal/quota"
	"cloister/egress/internal/refusal"
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
	message() *verdict.Message
	// send passes the request on, as m says where that is not nil, and gives the head of
	// the answer: as its edits may change it where there are any, else nil. It is the one
	// that dials.
	send(ctx context.Context, m *verdict.Message) (*verdict.Message, error)
	// pass gives the program the answer, as m says where that is not nil: its head, its
	// body, its trailers, and the frames of a connection that is upgraded.
	pass(m *verdict.Message) error
	// end lets go of the server's answer, counts what passed, and says of what broke the
	// request whose fault that is: by a *broken, or an error that refuses.
	end(err error) error
	// refuse answers the program in the place of the server. Where r is nil nothing can be
	// said any more: it breaks the answer off, so that half of it never looks whole.
	refuse(r *refusal.Refusal)
}

// A request is one request of a program from its head to its line in the record,
// whichever codec carries it. Its codec embeds it and fills in the first part.
type request struct {
	s      *stream
	codec  codec
	start  time.Time
	to     authority.Authority
	via    string
	method string
	path   string       // for the record: without the query, which may carry secrets
	http   verdict.HTTP // as all who judge it read it
	length int64        // that the body says of itself; -1 for nothing
	once   *verdict.Once
	alone  bool // the connection carries no other request meanwhile, and ends with this one
	// What it holds of the session's memory: from before the decision on, and from there on.
	early, late int64

	verdict  verdict.Verdict // what allowed it
	most     int64           // what the body may hold; 0 is no bound
	over     *verdict.Form   // of a body that holds more
	use      *quota.Host
	status   int   // of the answer
	up, down int64 // bytes of bodies
	answered bool  // the program has got a byte of an answer
	recorded bool
}

// A broken says why a request that was allowed has ended early.
type broken struct {
	reason  string
	silent  bool // the program is not answered: it or its connection has gone, or the server's end is passed on
	handled bool // the codec has answered the program
	breach  bool // the program broke the protocol: it is recorded as refused
}

func (b *broken) Error() string { return b.reason }

// An undialed is the error of a dial that led to no server.
type undialed struct{ error }

func (u *undialed) Unwrap() error { return u.error }

// serve is the life of a request: its quota, the decision, its edits, sending, and one
// line in the record. bad is why its head cannot be judged, nil where it can. True: the
// program has got the server's whole answer.
//
// Nothing is dialled or sent before the decision, and no edit, which may put credentials
// in, runs before it.
func (r *request) serve(ctx context.Context, bad error) bool {
	defer r.recordLost()
	e := r.s.e
	if bad != nil {
		return r.settle(bad)
	}
	if err := e.quota.Begin(); err != nil {
		return r.settle(err)
	}
	defer e.quota.End()
	if r.early > 0 {
		if err := e.memory.Take(r.early); err != nil {
			return r.settle(crowded(err))
		}
		defer e.memory.Give(r.early)
	}
	// What a verdict's edits hold for this request ends with it, read or not.
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	allowed, leave := r.decide(whole, cancel)
	defer leave()
	if !allowed {
		r.codec.refuse(new(refusal.Of(r.verdict, r.to)))
		return false
	}
	if r.late > 0 {
		if err := e.memory.Wait(r.late, ctx.Done()); err != nil {
			return r.settle(r.codec.end(crowded(err)))
		}
		defer e.memory.Give(r.late)
	}
	return r.settle(r.codec.end(r.exchange(whole)))
}

// decide asks the Decider, which records a denial, and keeps the request where Recheck
// finds it until leave. It asks again if policy changed before the answer was in
// Recheck's sight: no request outlives the rule that let it through.
func (r *request) decide(ctx context.Context, cancel context.CancelFunc) (allowed bool, leave func()) {
	s := r.s
	o := &openStream{query: verdict.Query{Kind: verdict.Request, Authority: r.to, Via: r.via, Method: r.http.Method,
		Path: r.path, HTTP: &r.http, Once: r.once}}
	if !r.alone {
		o.cancel = cancel
	}
	leave = func() { s.judged.end(o) }
	for {
		generation := s.e.generation.Load()
		r.verdict = s.e.cfg.Decider.Decide(ctx, o.query)
		r.recorded = !r.verdict.Allow
		if r.verdict.Allow {
			s.judged.enter(o)
		}
		if r.alone {
			s.judged.set(nil, s.judged.inspected() || r.verdict.Allow && r.verdict.Inspect)
		}
		if !r.verdict.Allow || s.e.generation.Load() == generation {
			return r.verdict.Allow, leave
		}
	}
}

// exchange has an allowed request edited and sent, and its answer edited and passed on.
func (r *request) exchange(ctx context.Context) error {
	if err := r.bounded(); err != nil {
		return err
	}
	edits := r.verdict.Edits
	var sent *verdict.Message
	if len(edits) > 0 {
		sent = r.codec.message()
		if err := sent.EditRequest(edits); err != nil {
			return err
		}
	}
	answer, err := r.codec.send(ctx, sent)
	if err != nil {
		return err
	}
	if answer != nil {
		if err := answer.EditResponse(edits); err != nil {
			return err
		}
	}
	return r.codec.pass(answer)
}

// bounded holds an allowed request to what its verdict and the session's quota let it be.
func (r *request) bounded() error {
	if r.verdict.Protocol != "" { // a proxy's client asked for a port where no one speaks HTTP
		return &verdict.Form{Status: http.StatusForbidden,
			Reason: "rules read the logins to this host by " + r.verdict.Protocol + ", and this is HTTP"}
	}
	r.most, r.over = r.s.e.bound(r.verdict, r.length)
	if r.most > 0 && r.length > r.most {
		return r.over
	}
	r.use = r.s.e.quota.Host(r.to.Host())
	return r.s.e.quota.Fits(r.use, r.length)
}

// settle writes the request's line in the record, by how it ended, and gives the program
// what is due to it. It reports whether err is nil.
func (r *request) settle(err error) bool {
	if err == nil {
		r.closed(r.flow())
		return true
	}
	if lost, ok := errors.AsType[*undialed](err); ok {
		r.settleUndialed(lost.error)
		return false
	}
	if b, ok := errors.AsType[*broken](err); ok {
		r.settleBroken(b)
		return false
	}
	r.status = http.StatusBadRequest
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
		f.Status, f.Hints, reply = edit.Answered(), edit.Verdict.Hints, refusal.OfEdit(edit, r.to)
	}
	reply.Status = f.Status
	r.answerRefused(f, reply)
	return false
}

// settleUndialed ends a request whose server was not reached.
func (r *request) settleUndialed(err error) {
	r.status = refusal.StatusOf(err)
	f, forbidden := r.s.e.undialed(r.flow(), err)
	if forbidden {
		r.answerRefused(f, refusal.Undialed(f, err))
		return
	}
	r.closed(f)
	r.codec.refuse(new(refusal.Undialed(f, err)))
}

// settleBroken ends a request that was under way.
func (r *request) settleBroken(b *broken) {
	f := r.flow()
	f.Reason = b.reason
	silent := b.silent || r.answered
	switch {
	case b.breach:
		r.refused(f)
		r.codec.refuse(nil)
	case b.handled:
		r.closed(f)
	case silent:
		r.closed(f)
		r.codec.refuse(nil)
	default:
		f.Status = http.StatusBadGateway
		r.closed(f)
		r.codec.refuse(&refusal.Refusal{Status: f.Status, Host: r.to.Host(), Port: r.to.Port(), Reason: f.Reason})
	}
}

// answerRefused records a refusal and tells the program where that can be.
func (r *request) answerRefused(f verdict.Flow, reply refusal.Refusal) {
	if !r.refused(f) || r.answered || r.s.conns.killed() != nil {
		r.codec.refuse(nil)
		return
	}
	r.codec.refuse(&reply)
}

// refuses reports whether err is a word about the request, and no failure to carry it.
func refuses(err error) bool {
	_, syntax := errors.AsType[*wire.SyntaxError](err)
	_, form := errors.AsType[*verdict.Form](err)
	_, edit := errors.AsType[*verdict.Refused](err)
	_, lost := errors.AsType[*undialed](err)
	return edit || lost || (syntax || form) && !errors.Is(err, errUpstream)
}

// flow is the request as it is recorded.
func (r *request) flow() verdict.Flow {
	return verdict.Flow{Kind: verdict.Request, Authority: r.to, Via: r.via, Method: r.method, Path: r.path,
		Status: r.status, Dialed: r.s.up.dialed, Up: r.up, Down: r.down, Start: r.start, Duration: time.Since(r.start)}
}

// closed records the end of what had been allowed.
func (r *request) closed(f verdict.Flow) {
	r.recorded = true
	r.s.e.cfg.Journal.Closed(f)
}

// refused records a refusal that is the gate's own, and whether it may be explained.
func (r *request) refused(f verdict.Flow) bool {
	r.recorded = true
	return r.s.e.refused(f)
}

// recordLost writes the line of a request that a panic ended: whoever recovers it, if
// anyone does, does not know the request.
func (r *request) recordLost() {
	if r.recorded {
		return
	}
	f := r.flow()
	f.Reason = errLost.Error()
	if r.verdict.Allow {
		r.closed(f)
		return
	}
	r.refused(f)
}

var errLost = errors.New("the request was lost by a fault of the gate's own")
