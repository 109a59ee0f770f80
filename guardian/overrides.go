package guardian

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"cloister/egress/verdict"
	"cloister/guardian/bodies"
	"cloister/guardian/court"
	"cloister/internal/budget"
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
func (l *live) overrides(ctx context.Context, q verdict.Query, bound func(*verdict.HTTP) error) (verdict.Edit, bool) {
	if q.HTTP == nil || !q.HTTP.Body {
		return verdict.Edit{}, false
	}
	form, grants := q.HTTP.Form(), q.HTTP.Grants()
	if form != nil && !l.methodMatters(q) {
		form = nil
	}
	if grants != nil && !l.Snapshot.Load().GrantMatters(l.asked(q)) {
		grants = nil
	}
	if form == nil && grants == nil {
		return verdict.Edit{}, false
	}
	return verdict.Edit{Request: func(m *verdict.Message) error {
		if m.Length() == 0 {
			return nil
		}
		body := m.Body()
		if form != nil {
			if err := form.Unreadable(); err != nil {
				return bodies.Odd(err)
			}
			body = &bodies.Reader{From: body, Form: form, Judge: l.methodJudge(q, bound), Odd: bodies.Odd}
		}
		if grants != nil {
			if err := grants.Unreadable(); err != nil {
				return bodies.Giving(err)
			}
			judge := func(string) error { return bodies.Giving(bodies.ErrGives) }
			body = &bodies.Reader{From: body, Form: grants, Judge: judge, Odd: bodies.Giving}
		}
		m.SetBody(body, m.Length())
		if n := m.Length(); n < 0 || n > mostAhead {
			return nil
		}
		held, err := l.memory.Whole(ctx, body, mostAhead)
		switch {
		case errors.Is(err, budget.ErrFull):
			return &verdict.Refused{Status: http.StatusServiceUnavailable,
				Verdict: verdict.Answer{Effect: "deny", Reason: err.Error()}}
		case err != nil:
			return err
		}
		m.SetBody(held, int64(len(held.Bytes())))
		return nil
	}}, true
}

// methodMatters reports whether policy, an MCP server or a secret's binding has a word on
// the method.
func (l *live) methodMatters(q verdict.Query) bool {
	snapshot := l.Snapshot.Load()
	if len(snapshot.MCPServersAt(q.Authority)) > 0 || snapshot.MethodMatters(l.asked(q)) {
		return true
	}
	s := l.secrets.Load()
	return s != nil && s.MethodMatters(q.Authority)
}

// methodJudge judges the request again with each method that its body asks for.
func (l *live) methodJudge(q verdict.Query, bound func(*verdict.HTTP) error) func(string) error {
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
			return bodies.Odd(errors.New("it asks for another method, at the host of an MCP server"))
		}
		v := court.Judge(snapshot, l.asked(other))
		switch {
		case v.Effect == policy.Ask:
			v.Reason = "a person would be asked about " + method + ", and not by way of a body: " + v.Reason
			fallthrough
		case v.Effect != policy.Allow:
			out := answered(court.Ruling{Verdict: v, Why: "its body asks for " + method})
			return &verdict.Refused{Status: http.StatusForbidden, Verdict: out}
		case v.MaxBytes > 0:
			return bodies.Odd(errors.New("it asks for " + method + ", whose body is bounded by the rule \"" + v.Rule + "\""))
		}
		return bound(&h)
	}
}
