package guardian

import (
	"context"

	"cloister/config"
	"cloister/egress/verdict"
	"cloister/policy"
)

// edits are what changes of an allowed request, in the order in which it goes up
// through them: the one place where they are put together.
func (l *live) edits(ctx context.Context, q verdict.Query, v policy.Verdict) []verdict.Edit {
	var out []verdict.Edit
	var swapped verdict.Edit
	also := func(*verdict.HTTP) error { return nil }
	secrets := l.secrets.Load()
	if secrets != nil && q.HTTP != nil {
		swapped, also = secrets.Edit(ctx, q.HTTP)
		if l.mayAskOfSecrets(q) {
			out = append(out, looked(q.HTTP))
		}
	}
	if edit, is := l.uploads.Edit(q.HTTP, func() bool { return l.Snapshot.Load().UploadMatters(l.asked(q)) }); is {
		out = append(out, edit)
	}
	if edit, is := l.overrides(ctx, q, also); is {
		out = append(out, edit)
	}
	if edit, is := l.tools.Edit(ctx, q); is { // it reads what the program said
		out = append(out, edit)
	}
	if len(v.Rewrites) > 0 {
		out = append(out, rewrite(v.Rewrites))
	}
	// Last up and first down: no other edit sees a real value.
	if swapped.Request != nil {
		out = append(out, swapped)
	}
	return out
}

// mayAskOfSecrets reports whether a person may be asked about a secret in a request.
func (l *live) mayAskOfSecrets(q verdict.Query) bool {
	secrets := l.secrets.Load()
	return q.HTTP.Look != nil && secrets.Bound(q.Authority) &&
		(secrets.Says(q.Authority, string(config.UseAsk)) || l.Snapshot.Load().AsksOfSecrets()) && l.Queue.Watched(l.Info.ID)
}

// looked looks at the body before any edit reads it, for a question that comes later. That
// one has the error, if there is one.
func looked(h *verdict.HTTP) verdict.Edit {
	return verdict.Edit{Request: func(*verdict.Message) error {
		_, _ = h.Look()
		return nil
	}}
}

// rewrite sets and removes headers as rules say.
func rewrite(list []policy.Rewrite) verdict.Edit {
	return verdict.Edit{Request: func(m *verdict.Message) error {
		for _, c := range list {
			if c.Remove {
				m.Header.Del(c.Header)
			} else {
				m.Header.Set(c.Header, c.Value)
			}
		}
		return nil
	}}
}
