package guardian

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/egress/verdict"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/internal/source"
	"cloister/policy"
)

// Decide is what becomes of a connection, a name or a request.
func (l *live) Decide(ctx context.Context, q verdict.Query) verdict.Answer {
	if q.Once == nil {
		q.Once = new(verdict.Once)
	}
	reads := l.reads(q)
	var open verdict.Opening
	r := court.Decide(ctx, &l.Context, court.Case{
		Policy:     func() court.Ruling { return l.policyOf(ctx, q) },
		Remembered: func(v policy.Verdict) (policy.Verdict, bool) { return allowedOnce(q, v) },
		Question:   func(v policy.Verdict) (approval.Ask, error) { return l.question(q, v) },
		Keep:       func(asked policy.Verdict, word string) { keepOnce(q, asked, word) },
		Event:      func(r court.Ruling) (audit.Event, bool) { return l.event(q, r) },
		Count: func(r court.Ruling) {
			open = l.opens(q, r.Verdict)
			l.count(q, r, reads || open != verdict.OpenNothing && q.Authority.Port() == 443)
		},
	})
	out := answered(r)
	if r.Unrecorded != nil {
		return out
	}
	out.Inspect = out.Inspect || reads
	if out.Open = open; q.Kind == verdict.Recheck { // one that is allowed is not counted anew
		out.Open = l.opens(q, r.Verdict)
	}
	if q.Kind == verdict.Request && out.Allow {
		out.Edits = l.edits(ctx, q, r.Verdict)
	}
	return out
}

// policyOf is what the policy of now says of a query.
func (l *live) policyOf(ctx context.Context, q verdict.Query) court.Ruling {
	if v, refused := l.misnamed(ctx, q); refused { // first: no person is asked about what may not be
		return court.Ruling{Verdict: v, Digest: l.Digest()}
	}
	snapshot := l.Snapshot.Load()
	r := court.Ruling{Verdict: l.tools.Learned(q, court.Judge(snapshot, l.asked(q))), Digest: snapshot.Digest()}
	if q.Kind == verdict.Resolve || q.Kind == verdict.Recheck {
		r.Why = court.Unwatched // a name leads nowhere yet, and what is open is not asked about again
	}
	return r
}

// event is the record of a ruling; false for what was allowed before and still is.
func (l *live) event(q verdict.Query, r court.Ruling) (audit.Event, bool) {
	if q.Kind == verdict.Recheck && r.Allowed() {
		return audit.Event{}, false
	}
	e := sessionctx.Frame(l.Info, r.Digest)
	e.Kind, e.Action = kindOf(q.Kind), q.Kind.String()
	if q.Login != nil && q.Kind == verdict.Connect {
		if e.Action = "login"; q.Login.Command != "" {
			e.Action = "run"
		}
	}
	e.Resource = resource(q.Kind, q.Authority.Host(), q.Authority.Port())
	e.Host, e.Via, e.Method, e.Path = q.Authority.Host(), q.Via, q.Method, q.Path
	if q.Kind != verdict.Resolve {
		e.Port = q.Authority.Port()
	}
	e.Verdict, e.Rule, e.Reason = r.Effect.String(), r.RuleAt(), reasonOf(r, q)
	noBytes(&e)
	if q.Kind == verdict.Request && !r.Allowed() {
		e.Status = http.StatusForbidden
	}
	return e, true
}

// noBytes sets the members that each record of the network has to zero: nothing has
// passed yet.
func noBytes(e *audit.Event) {
	var n [3]int64
	e.BytesUp, e.BytesDown, e.DurationMS = &n[0], &n[1], &n[2]
}

// asked is q in policy's words.
func (l *live) asked(q verdict.Query) policy.Request {
	r := policy.Request{
		Action:    policy.NetworkConnect,
		Authority: q.Authority,
		Session:   l.Info.Name,
		Project:   l.Info.Project,
		Agent:     l.Info.Agent,
		Login:     q.Login,
	}
	switch {
	case q.Kind == verdict.Resolve:
		r.Action = policy.NetworkResolve
	case q.HTTP != nil: // also one that is judged again
		r.Action = policy.HTTPRequest
		r.HTTP = *q.HTTP
	}
	return r
}

// answered is a ruling as egress takes it.
func answered(r court.Ruling) verdict.Answer {
	return verdict.Answer{
		Allow:  r.Allowed(),
		Effect: r.Effect.String(),
		Rule:   r.Rule,
		Place:  r.Origin.Place(),
		Reason: r.FullReason(),
		Hints:  r.Hints,

		Inspect:  r.Inspect,
		Protocol: r.Protocol,
		Identity: r.Identity,
		AskFirst: r.AskFirst,
		HostKeys: r.HostKeys,
		MaxBytes: r.MaxBytes,
	}
}

// count counts connections, or the requests on them where these are inspected, and names
// that were refused. A program asks for A and AAAA of one name: the person's summary has
// only the first.
func (l *live) count(q verdict.Query, r court.Ruling, inspected bool) {
	switch {
	case r.Allowed():
		if q.Kind == verdict.Request || q.Kind == verdict.Connect && q.Authority.Port() != 80 && !r.Inspect && !inspected &&
			(r.Protocol == "" || q.Login != nil) {
			l.Tally.Allowed(q.Authority.Host())
		}
		return
	case r.Unrecorded == nil && q.Kind == verdict.Resolve && (r.Effect == policy.Ask || q.Detail != "A"):
		return // an ask is refused, and counted, when it connects
	}
	refusal := api.Refusal{
		Host: q.Authority.Host(), Effect: r.Effect.String(), Reason: r.FullReason(),
		Rule: r.Rule, Place: r.Origin.Place(), Hints: r.Hints,
	}
	if q.Kind != verdict.Resolve {
		refusal.Port = int(q.Authority.Port())
	}
	l.Tally.Refused(refusal)
}

func reasonOf(r court.Ruling, q verdict.Query) string {
	v := r.Verdict
	if v.Effect == policy.Allow && !v.WouldDeny && v.Diagnostic == "" && q.Detail == "" && len(v.Rewrites) == 0 &&
		!v.Tunnel {
		return v.Reason // nearly always
	}
	var words []string
	switch {
	case v.WouldDeny:
		words = append(words, "not enforced, would have been refused: "+v.Reason)
	case v.Effect == policy.Ask && q.Kind != verdict.Resolve:
		words = append(words, r.FullReason())
	default:
		words = append(words, v.Reason)
	}
	if v.Diagnostic != "" {
		words = append(words, v.Diagnostic)
	}
	if q.Detail != "" {
		words = append(words, q.Detail)
	}
	if v.Tunnel && q.Kind == verdict.Connect {
		words = append(words, "TLS is passed on uninspected (tls: tunnel)")
	}
	if v.Effect == policy.Allow {
		for _, c := range v.Rewrites {
			words = append(words, c.String())
		}
	}
	return strings.Join(words, "; ")
}

func kindOf(k verdict.QueryKind) audit.Kind {
	switch k {
	case verdict.Resolve:
		return audit.NetDNS
	case verdict.Request:
		return audit.HTTPRequest
	case verdict.Connect, verdict.Recheck:
		return audit.NetConnect
	}
	return audit.NetConnect
}

func resource(k verdict.QueryKind, host string, port uint16) string {
	if k == verdict.Resolve {
		return host
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}

// flowEvent is the record of what became of a flow.
func (l *live) flowEvent(f verdict.Flow) audit.Event {
	e := l.Event()
	e.Kind = kindOf(f.Kind)
	if f.Authority.IsValid() {
		e.Host = f.Authority.Host()
		e.Resource = resource(f.Kind, e.Host, f.Authority.Port())
		if f.Kind != verdict.Resolve {
			e.Port = f.Authority.Port()
		}
	}
	e.Via, e.Method, e.Path, e.Status = f.Via, f.Method, f.Path, f.Status
	e.Rule = policy.Verdict{Rule: f.Rule, Origin: source.Position{Source: f.Place}}.RuleAt() // as decisions write it
	if e.Reason = f.Reason; f.Detail != "" {
		e.Reason = strings.TrimPrefix(e.Reason+"; "+f.Detail, "; ")
	}
	return e
}

// Closed is egress's word that something allowed has ended. There is nothing
// left to stop when it cannot be recorded: the operator is informed, and the next
// question is refused.
func (l *live) Closed(f verdict.Flow) {
	e := l.flowEvent(f)
	e.Action, e.Verdict = "close", policy.Allow.String()
	if f.Kind == verdict.Request {
		e.Action = "response"
		l.Tally.Answered(e.Host, f.Status)
	}
	n := [3]int64{f.Up, f.Down, f.Duration.Milliseconds()}
	e.BytesUp, e.BytesDown, e.DurationMS = &n[0], &n[1], &n[2]
	if err := l.Records.Ended(e); err != nil {
		l.g.log.Error("the end of a connection could not be recorded", "session", l.Info.Name, "error", err)
	}
}

// Refused is egress's word that it refused by itself.
func (l *live) Refused(f verdict.Flow) error {
	e := l.flowEvent(f)
	e.Action, e.Verdict, e.Suppressed = "refuse", policy.Deny.String(), f.Further
	noBytes(&e)
	err := l.Records.Append(context.WithoutCancel(l.ctx), e)
	r := api.Refusal{
		Host: e.Host, Port: int(e.Port), Effect: "deny", Reason: f.Reason, Rule: f.Rule, Place: f.Place, Hints: f.Hints,
	}
	if r.Host == "" {
		r.Host = f.Detail
	}
	// What is asked of DNS besides addresses, such as TXT, is not shown to the person.
	if besides := f.Kind == verdict.Resolve && f.Detail != "A" && !strings.HasSuffix(f.Detail, " A"); !besides &&
		!quiet(f) && !l.tools.Counted(f) {
		l.Tally.Refused(r)
	}
	return err
}

// quiet reports whether a refusal is for the record only. A program whose datagrams to port
// 443 are refused (QUIC) connects by TCP instead, which is judged and shown.
func quiet(f verdict.Flow) bool {
	return f.Via == verdict.ViaUDP && (f.Further > 0 || f.Authority.IsValid() && f.Authority.Port() == 443)
}
