package guardian

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/egress"
	"cloister/guardian/sessionctx"
	"cloister/policy"
)

// Decide is egress's question: policy, then the record, then the verdict. A
// verdict that cannot be recorded is a deny.
func (l *live) Decide(ctx context.Context, q egress.Query) egress.Verdict {
	var digest, why string
	v, refused := l.misnamed(ctx, q) // first: nobody is asked about what may not be
	if refused {
		digest = l.Digest()
	} else {
		v, digest, why = l.judge(ctx, q)
	}
	reads := l.reads(q)
	if q.Kind == egress.Recheck && v.Effect == policy.Allow {
		out := verdict(v, why) // no new action: nothing to record
		out.Inspect, out.Open = out.Inspect || reads, l.opens(q, v)
		return out
	}
	e := sessionctx.Frame(l.Info, digest)
	e.Kind, e.Action = kindOf(q.Kind), q.Kind.String()
	if q.Login != nil && q.Kind == egress.Connect {
		if e.Action = "login"; q.Login.Command != "" {
			e.Action = "run"
		}
	}
	e.Resource = resource(q.Kind, q.Authority.Host(), q.Authority.Port())
	e.Host, e.Via, e.Method, e.Path = q.Authority.Host(), q.Via, q.Method, q.Path
	if q.Kind != egress.Resolve {
		e.Port = q.Authority.Port()
	}
	e.Verdict, e.Rule = v.Effect.String(), v.RuleAt()
	e.Reason = reasonOf(v, q, why)
	nothing(&e)
	if q.Kind == egress.Request && v.Effect != policy.Allow {
		e.Status = http.StatusForbidden
	}
	if err := l.Records.Append(ctx, e); err != nil {
		if ctx.Err() != nil {
			return egress.Verdict{Effect: "deny", Reason: "the session has ended"}
		}
		l.Tally.Refused(api.Refusal{Host: e.Host, Port: int(e.Port), Effect: "deny", Reason: err.Error()})
		return egress.Verdict{Effect: "deny", Reason: "this could not be recorded, so it may not happen: " + err.Error()}
	}
	v.Inspect = v.Inspect || reads
	out := verdict(v, why)
	out.Open = l.opens(q, v)
	l.count(q, v, e, why, out.Open != egress.OpenNothing && q.Authority.Port() == 443)
	if q.Kind == egress.Request && out.Allow {
		out.Edits = l.edits(ctx, q, v)
	}
	return out
}

// nothing says that nothing has passed yet: each record of the network has these
// members, so that who adds them up needs not know which have them.
func nothing(e *audit.Event) {
	var n [3]int64
	e.BytesUp, e.BytesDown, e.DurationMS = &n[0], &n[1], &n[2]
}

// asked is q in policy's words.
func (l *live) asked(q egress.Query) policy.Request {
	r := policy.Request{
		Action:    policy.NetworkConnect,
		Authority: q.Authority,
		Session:   l.Info.Name,
		Project:   l.Info.Project,
		Agent:     l.Info.Agent,
	}
	if q.Login != nil {
		r.Login = &policy.Login{
			Protocol: q.Login.Protocol, User: q.Login.User, Database: q.Login.Database,
			Command: q.Login.Command, Repository: q.Login.Repository, Push: q.Login.Push,
		}
	}
	switch {
	case q.Kind == egress.Resolve:
		r.Action = policy.NetworkResolve
	case q.HTTP != nil: // also one that is judged again
		r.Action = policy.HTTPRequest
		r.HTTP = *q.HTTP
	}
	return r
}

// verdict is v in egress's words. An ask that is left is refused; why says for
// what reason.
func verdict(v policy.Verdict, why string) egress.Verdict {
	out := egress.Verdict{
		Allow:  v.Effect == policy.Allow,
		Effect: v.Effect.String(),
		Rule:   v.Rule,
		Place:  v.Origin.Place(),
		Reason: v.Reason,
		Hints:  v.Hints,

		Inspect:  v.Inspect,
		Protocol: v.Protocol,
		Identity: v.Identity,
		AskFirst: v.AskFirst,
		HostKeys: v.HostKeys,
		MaxBytes: v.MaxBytes,
	}
	if v.Effect == policy.Ask {
		out.Reason = why + ": " + v.Reason
	}
	return out
}

// count counts connections, or the requests on them where these are read, and
// names that were refused. A program asks for A and AAAA of one name: only the first is
// told to the person.
func (l *live) count(q egress.Query, v policy.Verdict, e audit.Event, why string, read bool) {
	switch {
	case v.Effect == policy.Allow:
		if q.Kind == egress.Request || q.Kind == egress.Connect && q.Authority.Port() != 80 && !v.Inspect && !read && (v.Protocol == "" || q.Login != nil) {
			l.Tally.Allowed(e.Host)
		}
		return
	case q.Kind == egress.Resolve && (v.Effect == policy.Ask || q.Detail != "A"):
		return // an ask is refused, and told, when it connects
	}
	out := verdict(v, why)
	l.Tally.Refused(api.Refusal{
		Host:   e.Host,
		Port:   int(e.Port),
		Effect: out.Effect,
		Reason: out.Reason,
		Rule:   out.Rule,
		Place:  out.Place,
		Hints:  out.Hints,
	})
}

func reasonOf(v policy.Verdict, q egress.Query, why string) string {
	if v.Effect == policy.Allow && !v.WouldDeny && v.Diagnostic == "" && q.Detail == "" && len(v.Rewrites) == 0 && !v.Tunnel {
		return v.Reason // nearly always
	}
	var words []string
	switch {
	case v.WouldDeny:
		words = append(words, "not enforced, would have been refused: "+v.Reason)
	case v.Effect == policy.Ask && q.Kind != egress.Resolve:
		words = append(words, why+": "+v.Reason)
	default:
		words = append(words, v.Reason)
	}
	if v.Diagnostic != "" {
		words = append(words, v.Diagnostic)
	}
	if q.Detail != "" {
		words = append(words, q.Detail)
	}
	if v.Tunnel && q.Kind == egress.Connect {
		words = append(words, "TLS is passed on uninspected (tls: tunnel)")
	}
	if v.Effect == policy.Allow {
		for _, c := range v.Rewrites {
			words = append(words, c.String())
		}
	}
	return strings.Join(words, "; ")
}

func kindOf(k egress.QueryKind) audit.Kind {
	switch k {
	case egress.Resolve:
		return audit.NetDNS
	case egress.Request:
		return audit.HTTPRequest
	case egress.Connect, egress.Recheck:
		return audit.NetConnect
	}
	return audit.NetConnect
}

func resource(k egress.QueryKind, host string, port uint16) string {
	if k == egress.Resolve {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// flowEvent is the record of what became of a flow.
func (l *live) flowEvent(f egress.Flow) audit.Event {
	e := l.Event()
	e.Kind = kindOf(f.Kind)
	if f.Authority.IsValid() {
		e.Host = f.Authority.Host()
		e.Resource = resource(f.Kind, e.Host, f.Authority.Port())
		if f.Kind != egress.Resolve {
			e.Port = f.Authority.Port()
		}
	}
	e.Via, e.Method, e.Path, e.Status = f.Via, f.Method, f.Path, f.Status
	e.Rule = policy.Verdict{Rule: f.Rule, Origin: policy.Origin{Source: f.Place}}.RuleAt() // as decisions write it
	if e.Reason = f.Reason; f.Detail != "" {
		e.Reason = strings.TrimPrefix(e.Reason+"; "+f.Detail, "; ")
	}
	return e
}

// Closed is egress's word that something allowed has ended. There is nothing
// left to stop when it cannot be recorded: the operator is told, and the next
// question is refused.
func (l *live) Closed(f egress.Flow) {
	e := l.flowEvent(f)
	e.Action, e.Verdict = "close", policy.Allow.String()
	if f.Kind == egress.Request {
		e.Action = "response"
	}
	n := [3]int64{f.Up, f.Down, f.Duration.Milliseconds()}
	e.BytesUp, e.BytesDown, e.DurationMS = &n[0], &n[1], &n[2]
	if err := l.Records.Ended(e); err != nil {
		l.g.log.Error("the end of a connection could not be recorded", "session", l.Info.Name, "error", err)
	}
}

// Refused is egress's word that it refused by itself.
func (l *live) Refused(f egress.Flow) error {
	e := l.flowEvent(f)
	e.Action, e.Verdict = "refuse", policy.Deny.String()
	nothing(&e)
	err := l.Records.Append(context.WithoutCancel(l.ctx), e)
	r := api.Refusal{Host: e.Host, Port: int(e.Port), Effect: "deny", Reason: f.Reason, Rule: f.Rule, Place: f.Place, Hints: f.Hints}
	if r.Host == "" {
		r.Host = f.Detail
	}
	// What is asked of DNS besides addresses, such as TXT, is not shown to the person.
	if besides := f.Kind == egress.Resolve && f.Detail != "A" && !strings.HasSuffix(f.Detail, " A"); !besides && !l.tools.Told(f) {
		l.Tally.Refused(r)
	}
	return err
}
