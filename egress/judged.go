package egress

import (
	"context"
	"fmt"
	"slices"
)

// current is what Recheck asks about; passed says that it is TLS which was not opened.
func (s *stream) current() (q Query, inspected, passed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.query == nil {
		return Query{}, false, false, false
	}
	// A request is read whatever is said of its connection.
	return *s.query, s.inspect || s.query.HTTP != nil, s.passed, true
}

func (s *stream) setCurrent(q *Query, inspect bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query, s.inspect = q, inspect
}

func (s *stream) inspected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inspect
}

// allow asks the Decider, and again if policy changed before the answer was in
// Recheck's sight: no connection outlives the rule that let it in.
func (s *stream) allow(ctx context.Context, q Query) Verdict {
	q.Once = &s.once
	for {
		generation := s.e.generation.Load()
		v := s.e.cfg.Decider.Decide(ctx, q)
		if !v.Allow {
			s.setCurrent(nil, s.inspected())
			return v
		}
		if s.setCurrent(&q, s.inspected() || v.Inspect); q.Kind == Connect && q.Login == nil {
			s.protocol, s.open = v.Protocol, v.Open
		}
		if s.e.generation.Load() == generation {
			return v
		}
	}
}

// setPassed notes that TLS is passed on as it is, which a policy change may end.
func (s *stream) setPassed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = true
}

// setInspected notes that requests are read from here on.
func (s *stream) setInspected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inspect = true
}

func (s *stream) enterStream(o *openStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.streams, o) {
		s.streams = append(s.streams, o)
	}
}

func (s *stream) leaveStream(o *openStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.streams, o); i >= 0 {
		s.streams = slices.Delete(s.streams, i, i+1)
	}
}

// recheckStreams asks about each request under way again.
func (s *stream) recheckStreams(ctx context.Context) {
	s.mu.Lock()
	open := slices.Clone(s.streams)
	s.mu.Unlock()
	for _, o := range open {
		q := o.query
		q.Kind = Recheck
		if v := s.e.cfg.Decider.Decide(ctx, q); !v.Allow {
			o.end(s, v)
		}
	}
}

// An openStream is a request or command under way, which Recheck asks about again.
type openStream struct {
	query  Query
	cancel context.CancelFunc // nil where its whole connection is to end
}

// end ends what is no longer allowed.
func (o *openStream) end(s *stream, v Verdict) {
	if o.cancel == nil {
		s.kill(fmt.Errorf("%w: %s", errNoLonger, v.Reason))
		return
	}
	o.cancel()
}

// login asks about who speaks.
func (s *stream) login(ctx context.Context, l Login) Verdict {
	return s.allow(ctx, Query{Kind: Connect, Authority: s.target, Via: s.via, Login: &l, Detail: l.Detail()})
}
