package guardian

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"cloister/egress"
	"cloister/guardian/court"
	"cloister/internal/budget"
	"cloister/internal/reading"
	"cloister/policy"
	"cloister/policy/allowing"
)

// mostAhead bounds a body that is read before its request goes up: a server that answers
// without it gets nothing of what is refused.
const mostAhead = 8 << 10

// overrides looks for another method in the body of a request, where what is allowed
// depends on the method, and for rights that metadata of an object gives to others, where
// it depends on those: false where it does not, and for bodies in which no server looks
// for either. The body is not held: what it asks for is judged as it passes, and one whose
// method is refused is broken off before its end, so that no server has the whole.
//
// bound is notified of the request in each of its readings, and gives an error where a secret
// that is in it may not go there.
func (l *live) overrides(ctx context.Context, q egress.Query, bound func(*egress.HTTP) error) (egress.Edit, bool) {
	if q.HTTP == nil || !q.HTTP.Body {
		return egress.Edit{}, false
	}
	form, grants := q.HTTP.Form(), q.HTTP.Grants()
	if form != nil && !l.methodMatters(q) {
		form = nil
	}
	if grants != nil && !l.Snapshot.Load().GrantMatters(l.asked(q)) {
		grants = nil
	}
	if form == nil && grants == nil {
		return egress.Edit{}, false
	}
	return egress.Edit{Request: func(m *egress.Message) error {
		if m.Length() == 0 {
			return nil
		}
		body := m.Body()
		if form != nil {
			if err := form.Unreadable(); err != nil {
				return oddBody(err)
			}
			body = &formReader{from: body, form: form, judge: l.methodJudge(q, bound), odd: oddBody}
		}
		if grants != nil {
			if err := grants.Unreadable(); err != nil {
				return givingBody(err)
			}
			judge := func(string) error { return givingBody(errGives) }
			body = &formReader{from: body, form: grants, judge: judge, odd: givingBody}
		}
		m.SetBody(body, m.Length())
		if n := m.Length(); n < 0 || n > mostAhead {
			return nil
		}
		held, err := l.memory.Whole(ctx, body, mostAhead)
		switch {
		case errors.Is(err, budget.ErrFull):
			return &egress.Refused{Status: http.StatusServiceUnavailable,
				Verdict: egress.Verdict{Effect: "deny", Reason: err.Error()}}
		case err != nil:
			return err
		}
		m.SetBody(held, int64(len(held.Bytes())))
		return nil
	}}, true
}

// methodMatters reports whether policy, an MCP server or a secret's binding has a word on
// the method.
func (l *live) methodMatters(q egress.Query) bool {
	snapshot := l.Snapshot.Load()
	if len(snapshot.MCPServersAt(q.Authority)) > 0 || snapshot.MethodMatters(l.asked(q)) {
		return true
	}
	s := l.secrets.Load()
	return s != nil && s.MethodMatters(q.Authority)
}

// methodJudge is who judges the request again with each method that its body asks for.
func (l *live) methodJudge(q egress.Query, bound func(*egress.HTTP) error) func(string) error {
	var methods []string
	return func(method string) error {
		method = strings.ToUpper(strings.TrimSpace(method))
		if !allowing.IsMethod(method) || method == q.HTTP.Method {
			return nil // which no server takes for one
		}
		methods = append(methods, method)
		other := q
		h := q.HTTP.With(methods...)
		other.HTTP = &h
		snapshot := l.Snapshot.Load()
		if len(snapshot.MCPServersAt(q.Authority)) > 0 {
			return oddBody(errors.New("it asks for another method, at the host of an MCP server"))
		}
		v := court.Judge(snapshot, l.asked(other))
		switch {
		case v.Effect == policy.Ask:
			v.Reason = "a person would be asked about " + method + ", and not by way of a body: " + v.Reason
			fallthrough
		case v.Effect != policy.Allow:
			out := verdict(court.Ruling{Verdict: v, Why: "its body asks for " + method})
			return &egress.Refused{Status: http.StatusForbidden, Verdict: out}
		case v.MaxBytes > 0:
			return oddBody(errors.New("it asks for " + method + ", whose body is bounded by the rule \"" + v.Rule + "\""))
		}
		return bound(&h)
	}
}

// oddBody refuses a body for what it may ask for.
func oddBody(err error) error {
	return &egress.Refused{Status: http.StatusUnsupportedMediaType, Verdict: egress.Verdict{
		Effect: "deny", Reason: "a body whose method cannot be judged: " + err.Error(),
		Hints: []string{"send it with the method that is meant, and no _method"},
	}}
}

var errGives = errors.New("it says who may use the object (acl)")

// givingBody refuses a body for what it may give to others.
func givingBody(err error) error {
	return &egress.Refused{Status: http.StatusForbidden, Verdict: egress.Verdict{
		Effect: "deny", Reason: "a body that a rule about the objects of one bucket does not cover: " + err.Error(),
		Hints: []string{"leave acl out; contents in which the word stands are taken with uploadType=media, or resumable"},
	}}
}

// A formReader is a body that is looked at as it passes. What may be part of a method
// waits for the rest of it.
type formReader struct {
	from  io.Reader
	form  *reading.Form
	judge func(method string) error
	odd   func(error) error // refuses what cannot be read
	ready []byte            // may go
	held  []byte            // waits
	err   error
}

func (r *formReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && r.err == nil {
		held := copy(p, r.held)
		if held == len(p) { // smaller than a method: a reader that wants the first bytes only
			p = make([]byte, held+512)
			copy(p, r.held)
		}
		n, err := r.from.Read(p[held:])
		keep, found := r.form.Write(p[held:held+n], r.judge)
		if found == nil && errors.Is(err, io.EOF) {
			keep, found = 0, r.form.End(r.judge)
		}
		if found != nil {
			if _, refused := errors.AsType[*egress.Refused](found); !refused {
				found = r.odd(found)
			}
			r.ready, r.held, r.err = nil, nil, found
			return 0, found
		}
		all := p[:held+n]
		keep = min(keep, len(all))
		r.ready, r.held = append(r.ready[:0], all[:len(all)-keep]...), append(r.held[:0], all[len(all)-keep:]...)
		r.err = err
	}
	if n := copy(p, r.ready); n > 0 {
		r.ready = r.ready[n:]
		return n, nil
	}
	return 0, r.err
}
