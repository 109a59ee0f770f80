package sessionctx

import (
	"context"
	"fmt"

	"cloister/api"
	"cloister/audit"
)

// RecordFile records what the kernel judged: it has happened, or been refused.
func (c *Context) RecordFile(ctx context.Context, f api.FileEvent) {
	e := c.Event()
	e.Time, e.Action, e.Resource, e.Rule, e.PID, e.Suppressed = f.When, f.Op, f.Path, f.Rule, f.PID, f.More
	e.Kind, e.Verdict, e.Reason = audit.Exec, "allow", fmt.Sprintf("by %q, as it calls itself", f.Program)
	if f.Why != "" {
		e.Kind, e.Verdict = audit.FileDenied, "deny"
		e.Reason = fmt.Sprintf("the kernel refused it to %q: %s", f.Program, f.Why)
	}
	c.Record(ctx, e)
}
