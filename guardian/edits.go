package guardian

import (
	"context"

	"cloister/egress"
	"cloister/policy"
)

// edits are what changes of an allowed request, in the order in which it goes up
// through them: the one place where they are put together.
func (l *live) edits(ctx context.Context, q egress.Query, v policy.Verdict) []egress.Edit {
	var out []egress.Edit
	var swapped egress.Edit
	also := func(*egress.HTTP) error { return nil }
	secrets := l.secrets.Load()
	if secrets != nil && q.HTTP != nil {
		swapped, also = secrets.Edit(ctx, q.HTTP)
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

// rewrite sets and removes headers as rules say.
func rewrite(list []policy.Rewrite) egress.Edit {
	return egress.Edit{Request: func(m *egress.Message) error {
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
