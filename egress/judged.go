package egress

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
)

// A judged is what a stream does by leave of the Decider, where Recheck finds it.
type judged struct {
	e        *Engine
	conns    *sockets
	protocol string          // in which the connection must say who wants what
	open     verdict.Opening // of TLS whose requests no rule reads
	once     verdict.Once    // what a person allowed for the stream alone

	mu      sync.Mutex
	query   *verdict.Query // what the stream is doing
	inspect bool           // requests are read, or it ends
	passed  bool           // TLS was passed on as it is
	under   []*openStream
}

// current is what Recheck asks about; passed says that it is TLS which was not opened.
func (j *judged) current() (q verdict.Query, inspected, passed, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.query == nil {
		return verdict.Query{}, false, false, false
	}
	// A request is read whatever is said of its connection.
	return *j.query, j.inspect || j.query.HTTP != nil, j.passed, true
}

func (j *judged) set(q *verdict.Query, inspect bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.query, j.inspect = q, inspect
}

func (j *judged) inspected() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inspect
}

// setPassed notes that TLS is passed on as it is, which a policy change may end.
func (j *judged) setPassed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passed = true
}

// setInspected notes that requests are read from here on.
func (j *judged) setInspected() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inspect = true
}

// ask asks the Decider, and again if policy changed before the answer was in
// Recheck's sight: no connection outlives the rule that let it in.
func (j *judged) ask(ctx context.Context, q verdict.Query) verdict.Verdict {
	q.Once = &j.once
	for {
		generation := j.e.generation.Load()
		v := j.e.cfg.Decider.Decide(ctx, q)
		if !v.Allow {
			j.set(nil, j.inspected())
			return v
		}
		if j.set(&q, j.inspected() || v.Inspect); q.Kind == verdict.Connect && q.Login == nil {
			j.protocol, j.open = v.Protocol, v.Open
		}
		if j.e.generation.Load() == generation {
			return v
		}
	}
}

// An openStream is a request or command under way, which Recheck asks about again.
type openStream struct {
	query  verdict.Query
	cancel context.CancelFunc // nil where its whole connection is to end
}

// enter puts a request or command where Recheck finds it.
func (j *judged) enter(o *openStream) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Contains(j.under, o) {
		j.under = append(j.under, o)
	}
}

func (j *judged) end(o *openStream) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.under, o); i >= 0 {
		j.under = slices.Delete(j.under, i, i+1)
	}
}

// recheck asks again about each request under way, and about the connection, and ends what
// is no longer allowed.
func (j *judged) recheck(ctx context.Context) {
	j.mu.Lock()
	under := slices.Clone(j.under)
	j.mu.Unlock()
	for _, o := range under {
		if v := j.again(ctx, o.query); v.Allow {
			continue
		} else if o.cancel == nil {
			j.conns.kill(fmt.Errorf("%w: %s", errNoLonger, v.Reason))
		} else {
			o.cancel()
		}
	}
	q, inspected, passed, ok := j.current()
	if !ok {
		return
	}
	switch v := j.again(ctx, q); {
	case !v.Allow:
		j.conns.kill(fmt.Errorf("%w: %s", errNoLonger, v.Reason))
	case passed && v.Open != verdict.OpenNothing, v.Inspect && !inspected,
		v.Protocol != "" && q.HTTP == nil && q.Login == nil:
		j.conns.kill(errNowRead)
	}
}

func (j *judged) again(ctx context.Context, q verdict.Query) verdict.Verdict {
	q.Kind = verdict.Recheck
	return j.e.cfg.Decider.Decide(ctx, q)
}

// opens reports whether TLS that begins so is inspected. An encrypted ClientHello never
// goes out: whoever has its key could be told another name by it. One that a browser
// sends as grease is the same to anyone else, so it is inspected too.
func (j *judged) opens(h wire.Hello) bool {
	return j.inspected() || j.open != verdict.OpenNothing || h.ECH
}

// tunnelHint says how a connection is passed on uninspected, where a rule may say so.
func (j *judged) tunnelHint(to authority.Authority) []string {
	if j.open == verdict.OpenHTTP {
		return []string{"connections to this host are always inspected: have the program trust the session's authority " +
			"(SSL_CERT_FILE inside)"}
	}
	return []string{"if the program pins its server's certificate, or shows one of its own, in config.yaml: " +
		dial.TunnelRule(to)}
}
