package policy

import "cloister/internal/reading"

// everyReading judges a request in each way in which a server may take it, with the
// objects that it names beside its path: a rule about GET must not let a DELETE
// through, one about a bucket no copy of another. The strictest answer counts.
func (s *Snapshot) everyReading(r Request) Verdict {
	r.HTTP.To = r.Authority
	others, err := r.HTTP.Others()
	if err != nil {
		return Verdict{Rule: ruleInvalid, Reason: err.Error()}
	}
	v, says, by := s.weigh(r), "", &r.HTTP
	sent := v
	for i := 0; i < len(others) && v.Effect != Deny; i++ {
		w, http := s.other(r, &others[i], sent)
		if w.Effect < v.Effect {
			w.Inspect, w.Judged, w.Rewrites = v.Inspect || w.Inspect, v.Judged || w.Judged, v.Rewrites
			v, says, by = w, others[i].Says, &http
		}
		if w.MaxBytes > 0 && (v.MaxBytes == 0 || w.MaxBytes < v.MaxBytes) {
			v.MaxBytes = w.MaxBytes
		}
	}
	if v.Rule == RuleUnlisted && v.Reason == "" {
		s.nearest(&v, by.To, by)
	}
	if says != "" {
		v.Reason = says + " makes another request of it: " + v.Reason
	}
	objects := r.HTTP.Objects()
	for i := 0; i < len(objects) && v.Effect != Deny; i++ {
		if w := s.object(r, &objects[i], sent.Judged); w.Effect != Allow {
			w.Effect, w.Inspect, w.Judged = Deny, true, v.Judged // a person would be shown the request alone
			w.Reason = objects[i].Says + " names " + objects[i].String() + ": " + w.Reason
			v = w
		}
	}
	return v
}

// other judges one reading. What names another host is judged where rules read the
// requests to the one that it is sent to, or a rule denies the other.
func (s *Snapshot) other(r Request, o *reading.Other, sent Verdict) (Verdict, HTTP) {
	r.HTTP = o.As(&r.HTTP)
	if o.BadTo != nil {
		if !sent.Judged {
			return sent, r.HTTP
		}
		return Verdict{Rule: ruleInvalid, Reason: o.BadTo.Error()}, r.HTTP
	}
	if o.To == r.Authority {
		return s.weigh(r), r.HTTP
	}
	r.Authority = o.To
	w := s.weigh(r)
	switch {
	case w.Effect == Allow:
	case w.Rule == RuleUnlisted && !sent.Judged:
		return sent, r.HTTP
	default:
		w.Effect = Deny // a person would be shown the host that it is sent to
	}
	return w, r.HTTP
}

// object judges something else that a request reads or writes, as a request for it:
// allowed where that is under one of its names, and denied under none.
func (s *Snapshot) object(r Request, o *reading.Object, judged bool) Verdict {
	if o.Bad != nil {
		if !judged && reading.StoreOf(r.Authority).Kind == reading.Unknown {
			return Verdict{Effect: Allow}
		}
		return Verdict{Rule: ruleInvalid, Reason: o.Bad.Error()}
	}
	var best Verdict
	for i, name := range o.Names {
		q := r
		q.Authority = name.To
		q.HTTP.To, q.HTTP.Path, q.HTTP.BadPath, q.HTTP.Query, q.HTTP.Raw = name.To, name.Path, nil, "", name.Path.Wire()
		if o.Reads {
			q.HTTP.Method = "GET"
		}
		w := s.weigh(q)
		if w.Rule == RuleUnlisted && w.Reason == "" {
			s.nearest(&w, name.To, &q.HTTP)
		}
		if w.Effect == Deny && w.Rule != RuleUnlisted {
			return w
		}
		if i == 0 || w.Effect > best.Effect {
			best = w
		}
	}
	return best
}

// GrantMatters is MethodMatters for a body that gives others a right (reading.Request.Grants).
func (s *Snapshot) GrantMatters(r Request) bool {
	given := r
	given.HTTP = r.HTTP.Giving()
	return s.mode == Enforce && r.Action == HTTPRequest && s.judge(given).Effect != s.judge(r).Effect
}

// UploadMatters is MethodMatters for a request that goes on with a resumable upload
// (reading.Request.Uploads).
func (s *Snapshot) UploadMatters(r Request) bool {
	going := r
	going.HTTP = r.HTTP.Continuing()
	return s.mode == Enforce && r.Action == HTTPRequest && s.judge(going).Effect != s.judge(r).Effect
}

// MethodMatters reports whether a request like this one could be judged otherwise by another
// method. Who lets it through then looks into its body for one (reading.Form).
func (s *Snapshot) MethodMatters(r Request) bool {
	if s.mode != Enforce {
		return false
	}
	if s.cedar != nil && s.cedar.request.speaksOf(r.Authority) != nil {
		return true
	}
	var all []*rule
	f := found{all: &all}
	for _, ix := range s.layers {
		ix.naming(r.Authority, &f)
	}
	methods, speaks := []string{"NONE"}, false // which no rule names
	for _, rule := range all {
		if q := rule.request; q != nil {
			methods, speaks = append(methods, q.methods...), speaks || len(q.methods) > 0 || q.objects != ""
		}
	}
	if !speaks {
		return false
	}
	sent := s.judge(r)
	for _, method := range methods {
		other := r
		other.HTTP = r.HTTP.With(method)
		if v := s.judge(other); v.Effect != sent.Effect || v.MaxBytes != sent.MaxBytes {
			return true
		}
	}
	return false
}
