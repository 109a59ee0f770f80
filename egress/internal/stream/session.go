package stream

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cloister/egress/internal/buffer"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/errtext"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/late"
	"cloister/egress/internal/mint"
	"cloister/egress/internal/names"
	"cloister/egress/internal/quota"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/spares"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// A Session is what all connections of one cloister share.
type Session struct {
	Decider verdict.Decider
	Journal verdict.Journal
	CA      *mint.Authority // nil: no connection can be intercepted
	Redact  redact.Values   // nil: there are no secrets
	Limits  Limits
	Log     *slog.Logger
	Names   *names.Names
	Dialer  *dial.Dialer
	TLS     *dial.TLS
	Quota   *quota.Counter
	Memory  *budget.Share
	Buffers buffer.Pool
	Batches sock.Memory
	Late    late.List
	Spares  spares.Pool
	// generation counts the policy changes that were reported.
	Generation atomic.Uint64
	overflow   atomic.Int64 // when a refusal at the cap was last recorded
}

// Full records that the session's cap was hit, at most once in a second: a
// program that opens connections in a loop shall not fill the audit too.
func (e *Session) Full(reason string) {
	now := time.Now()
	last := e.overflow.Load()
	if now.UnixNano()-last < int64(time.Second) || !e.overflow.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	e.Refused(verdict.Flow{
		Kind: verdict.Connect, Via: verdict.ViaDirect, Start: now,
		Reason: reason,
	})
}

// Refused tells the Journal, and whether an explanation may be given.
func (e *Session) Refused(f verdict.Flow) bool {
	f.Duration = time.Since(f.Start)
	if f.Rule != "" {
		e.Quota.Limit()
	}
	if err := e.Journal.Refused(f); err != nil {
		e.Log.Error("refusal could not be recorded", "error", err)
		return false
	}
	return true
}

// Target finds the name a program meant by an address.
func (e *Session) Target(dst netip.AddrPort) (authority.Authority, error) {
	if name, ok := e.Names.Name(dst.Addr()); ok {
		return authority.Parse(name, dst.Port())
	}
	if names.IsSynthetic(dst.Addr()) {
		return authority.Authority{}, errors.New("no name has this address in this session: it must be asked of DNS again")
	}
	return authority.FromAddrPort(dst)
}

// Named turns a synthetic address, which a program has resolved by itself,
// back to the name it means, and refuses the gate's own.
func (e *Session) Named(a authority.Authority) (authority.Authority, error) {
	if a.Host() == gate.Proxy {
		return authority.Authority{}, errors.New("the proxy is no destination")
	}
	addr, ok := a.Addr()
	if !ok {
		return a, nil
	}
	if gate.Is(addr) {
		return authority.Authority{}, errors.New("the proxy is no destination")
	}
	return e.Target(netip.AddrPortFrom(addr, a.Port()))
}

// Undialed is f with why its dial led to nothing, and whether that is a refusal of ours.
func (e *Session) Undialed(f verdict.Flow, err error) (_ verdict.Flow, refused bool) {
	f.Reason = err.Error()
	if forbidden, ok := errors.AsType[*guard.Forbidden](err); ok {
		f.Detail = forbidden.Detail()
		return f, true
	}
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
		return f, true
	}
	if d, ok := errors.AsType[*dial.Error](err); ok && d.Err != nil {
		e.Log.Info("dial", "authority", f.Authority.String(), "error", d.Err)
	}
	f.Duration = time.Since(f.Start)
	return f, false
}

// overBound is a bound that was reached, for the program.
func overBound(e quota.Error) *verdict.Form {
	return &verdict.Form{Status: e.Status, Reason: e.Reason, Rule: e.Rule, Hints: e.Hints, Retry: e.Retry}
}

func NewQuota(b quota.Bounds, names int) *quota.Counter {
	return quota.New(b, names, func(e quota.Error) error { return overBound(e) })
}

// Bound is the most that a body may hold: the rule's word or the session's. length
// is what it says that it holds, if it does.
func (e *Session) Bound(v verdict.Answer, length int64) (int64, *verdict.Form) {
	own := e.Quota.Bounds().RequestBytes
	switch {
	case v.MaxBytes > 0 && (own == 0 || v.MaxBytes <= own):
		return v.MaxBytes, Ruled(v, length)
	case own == 0:
		return 0, nil
	}
	return own, overBound(quota.Over(http.StatusRequestEntityTooLarge, "max_request_bytes",
		"a body of more than "+strconv.FormatInt(own, 10)+" bytes",
		"max_request_bytes: "+strconv.FormatInt(errtext.Enough(own, length), 10)))
}

// Ruled refuses a body by the rule's word.
func Ruled(v verdict.Answer, length int64) *verdict.Form {
	return &verdict.Form{Status: http.StatusRequestEntityTooLarge, Rule: v.Rule, Place: v.Place,
		Reason: "a body of more than " + strconv.FormatInt(v.MaxBytes, 10) + " bytes, the most that the rule \"" + v.Rule +
			"\" allows",
		Hints: []string{strings.TrimSpace("in the rule at "+v.Place) + " write bytes: " +
			strconv.FormatInt(errtext.Enough(v.MaxBytes, length), 10)},
	}
}
