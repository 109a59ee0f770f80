package flood

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloister/audit"
)

// What of one session's allowed traffic is recorded one by one, in bytes of records: a
// burst of about 80,000 requests, then about four a second. What is more is counted by
// host and kind, and reported in records of their own, so that allowed requests with long
// paths do not fill the disk (LG-21).
const (
	allowedBurst = 64 << 20
	allowedRate  = 4 << 10 // a second
	// mostHosts bounds what is counted by itself; the others are one sum.
	mostHosts = 256
)

// traffic reports whether an event is of traffic that was allowed.
func traffic(e *audit.Event) bool {
	switch e.Kind {
	case audit.NetDNS, audit.NetConnect, audit.HTTPRequest, audit.MCPCall, audit.SecretUse:
		return e.Verdict == "allow" && e.Action != "pin"
	case audit.FileOpen: // what a person allowed: each open makes one
		return e.Verdict == "allow" && asked(e)
	}
	return false
}

// size is about what an event takes in the record.
func size(e *audit.Event) float64 {
	n := 640
	for _, s := range []string{e.Resource, e.Rule, e.Reason, e.Host, e.Path, e.Arguments, e.Project} {
		n += min(len(s), 2<<10)
	}
	return float64(n)
}

// group is what is counted together.
type group struct{ kind, action, host string }

// allow reports whether an event of allowed traffic is recorded by itself. due are the sums
// whose time it is.
func (a *allowance) allow(e *audit.Event, now time.Time) (record bool, due []audit.Event) {
	a.bytes = min(allowedBurst, a.bytes+now.Sub(a.filled).Seconds()*allowedRate)
	a.filled = now
	if len(a.counted) > 0 && now.Sub(a.summed) >= Every {
		due, a.summed = a.counts(), now
	}
	if n := size(e); a.bytes >= n {
		a.bytes -= n
		return true, due
	}
	if a.counted == nil {
		a.counted = map[group]*audit.Event{}
	}
	g := group{e.Kind, e.Action, e.Host}
	if _, known := a.counted[g]; !known && len(a.counted) >= mostHosts {
		g.host = ""
	}
	first := a.counted[g]
	if first != nil {
		first.Suppressed++
		for _, n := range [][2]*int64{{first.BytesUp, e.BytesUp}, {first.BytesDown, e.BytesDown},
			{first.DurationMS, e.DurationMS}} {
			if n[0] != nil && n[1] != nil {
				*n[0] += *n[1]
			}
		}
		return false, due
	}
	if len(a.counted) == 0 && len(due) == 0 {
		a.summed = now // the sums come that long after the first that is counted
	}
	kept := *e
	kept.Path, kept.Arguments = "", ""
	if e.BytesUp != nil {
		var n [3]int64 // of those that are counted; this one is recorded
		kept.BytesUp, kept.BytesDown, kept.DurationMS = &n[0], &n[1], &n[2]
	}
	if g.host == "" {
		kept.Host, kept.Resource = "", ""
	}
	a.counted[g] = &kept
	e.Reason += "; further allowed events of this kind for this host are counted, and not recorded one by one"
	return true, due
}

// counts are the records of what was counted of allowed traffic, and end it.
func (a *allowance) counts() []audit.Event {
	var out []audit.Event
	for _, g := range slices.SortedFunc(maps.Keys(a.counted), func(x, y group) int {
		return cmp.Or(strings.Compare(x.kind, y.kind), strings.Compare(x.action, y.action), strings.Compare(x.host, y.host))
	}) {
		e := *a.counted[g]
		if e.Suppressed == 0 {
			continue
		}
		e.Reason = fmt.Sprintf("%d allowed events (%s %s) of %s were counted and not recorded one by one: "+
			"this session has used its share of the record", e.Suppressed, g.kind, g.action, cmp.Or(g.host, "other hosts"))
		e.Action, e.Time = "suppressed", time.Time{}
		out = append(out, e)
	}
	clear(a.counted)
	return out
}
