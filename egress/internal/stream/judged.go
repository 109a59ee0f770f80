package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// A Judged is what a stream does by leave of the Decider, where Recheck finds it.
type Judged struct {
	e        *Session
	conns    *Sockets
	Protocol string          // in which the connection must say who wants what
	Open     verdict.Opening // of TLS whose requests no rule reads
	Once     verdict.Once    // what a person allowed for the stream alone

	mu      sync.Mutex
	query   *verdict.Query // what the stream is doing
	inspect bool           // requests are read, or it ends
	passed  bool           // TLS was passed on as it is
	under   []*Underway
}

// current is what Recheck asks about; passed says that it is TLS which was not opened.
func (j *Judged) current() (q verdict.Query, inspected, passed, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.query == nil {
		return verdict.Query{}, false, false, false
	}
	// A request is read whatever is said of its connection.
	return *j.query, j.inspect || j.query.HTTP != nil, j.passed, true
}

func (j *Judged) Set(q *verdict.Query, inspect bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.query, j.inspect = q, inspect
}

func (j *Judged) Inspected() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inspect
}

// SetPassed notes that TLS is passed on as it is, which a policy change may end.
func (j *Judged) SetPassed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passed = true
}

// SetInspected notes that requests are read from here on.
func (j *Judged) SetInspected() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inspect = true
}

// Ask asks the Decider, and again if policy changed before the answer was in
// Recheck's sight: no connection outlives the rule that let it in.
func (j *Judged) Ask(ctx context.Context, q verdict.Query) verdict.Answer {
	q.Once = &j.Once
	for {
		generation := j.e.Generation.Load()
		v := j.e.Decider.Decide(ctx, q)
		if !v.Allow {
			j.Set(nil, j.Inspected())
			return v
		}
		if j.Set(&q, j.Inspected() || v.Inspect); q.Kind == verdict.Connect && q.Login == nil {
			j.Protocol, j.Open = v.Protocol, v.Open
		}
		if j.e.Generation.Load() == generation {
			return v
		}
	}
}

// An Underway is a request or command under way, which Recheck asks about again.
type Underway struct {
	Query  verdict.Query
	Cancel context.CancelFunc // nil where its whole connection is to end
}

// Enter puts a request or command where Recheck finds it.
func (j *Judged) Enter(o *Underway) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Contains(j.under, o) {
		j.under = append(j.under, o)
	}
}

func (j *Judged) End(o *Underway) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.under, o); i >= 0 {
		j.under = slices.Delete(j.under, i, i+1)
	}
}

// Recheck asks again about each request under way, and about the connection, and ends what
// is no longer allowed.
func (j *Judged) Recheck(ctx context.Context) {
	j.mu.Lock()
	under := slices.Clone(j.under)
	j.mu.Unlock()
	for _, o := range under {
		if v := j.again(ctx, o.Query); v.Allow {
			continue
		} else if o.Cancel == nil {
			j.conns.Kill(fmt.Errorf("%w: %s", ErrNoLonger, v.Reason))
		} else {
			o.Cancel()
		}
	}
	q, inspected, passed, ok := j.current()
	if !ok {
		return
	}
	switch v := j.again(ctx, q); {
	case !v.Allow:
		j.conns.Kill(fmt.Errorf("%w: %s", ErrNoLonger, v.Reason))
	case passed && v.Open != verdict.OpenNothing, v.Inspect && !inspected,
		v.Protocol != "" && q.HTTP == nil && q.Login == nil:
		j.conns.Kill(errNowRead)
	}
}

func (j *Judged) again(ctx context.Context, q verdict.Query) verdict.Answer {
	q.Kind = verdict.Recheck
	return j.e.Decider.Decide(ctx, q)
}

// Opens reports whether TLS that begins so is inspected. An encrypted ClientHello never
// goes out: whoever has its key could read another name in it. One that a browser
// sends as grease is the same to anyone else, so it is inspected too.
func (j *Judged) Opens(h wire.Hello) bool {
	return j.Inspected() || j.Open != verdict.OpenNothing || h.ECH
}

// TunnelHint says how a connection is passed on uninspected, where a rule may say so.
func (j *Judged) TunnelHint(to authority.Authority) []string {
	if j.Open == verdict.OpenHTTP {
		return []string{"connections to this host are always inspected: have the program trust the session's authority " +
			"(SSL_CERT_FILE inside)"}
	}
	return []string{"if the program pins its server's certificate, or shows one of its own, in config.yaml: " +
		dial.TunnelRule(to)}
}

var (
	ErrNoLonger = errors.New("no longer allowed after a policy change")
	errNowRead  = errors.New("rules read the requests to this host since a policy change")
)
