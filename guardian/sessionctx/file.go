package sessionctx

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// RecordFile records what the kernel judged: it has happened, or been refused. again says that
// an earlier guardian may have recorded it.
func (c *Context) RecordFile(ctx context.Context, f api.FileEvent, again bool) {
	e := c.Event()
	e.Time, e.Action, e.Resource, e.Rule, e.PID, e.Suppressed = f.When, f.Op, f.Path, f.Rule, f.PID, f.More
	e.Kind, e.Verdict, e.Reason = audit.Exec, "allow", fmt.Sprintf("by %q, as it calls itself", f.Program)
	if f.Op != "execute" {
		e.Kind = audit.FileOpen
	}
	if len(f.Argv) > 0 {
		e.Arguments = termsafe.Clip(strings.Join(f.Argv, " "), argumentsShown)
	}
	switch {
	case f.Unseen != "":
		e.Reason = "not seen one by one: " + f.Unseen
	case f.Let:
		e.Reason = fmt.Sprintf("not enforced, would have been refused to %q: %s", f.Program, f.Why)
	case f.Why != "":
		e.Kind, e.Verdict = audit.FileDenied, "deny"
		e.Reason = fmt.Sprintf("the kernel refused it to %q: %s", f.Program, f.Why)
	}
	if again {
		e.Reason += "; an earlier guardian may have recorded it too"
	}
	c.Record(ctx, e)
}

// argumentsShown bounds what is recorded of a program's words, in bytes.
const argumentsShown = 2000

// RecordClosed records the paths that statements of policies close to this session.
// They are refused once, here, by the view that is about to be made: what is tried at
// them afterwards the kernel refuses, and reports to no one.
func (c *Context) RecordClosed(ctx context.Context, accepted []string) error {
	if c.Info.Mode != policy.Enforce.String() && config.Isolation(c.Info.Isolation).Watches() {
		return nil // nothing is closed: what would be refused is recorded when it is tried
	}
	for _, st := range c.Snapshot.Load().Statements() {
		if st.Hold > policy.InView || st.Hold == policy.Unkept || slices.Contains(accepted, st.Residue()) {
			continue
		}
		for _, p := range st.Closed {
			e := c.Event()
			e.Kind, e.Action, e.Resource, e.Verdict, e.Rule = audit.FileDenied, "open", p.Path, "deny", st.Rule
			e.Reason = "a statement at " + st.Origin.String() + ": shown empty"
			if st.Hold == policy.InKernel {
				e.Action, e.Reason = "execute", "a statement at "+st.Origin.String()+": refused by the kernel"
			} else if p.Write {
				e.Action, e.Reason = "write", "a statement at "+st.Origin.String()+": shown read-only"
			}
			if err := c.Records.Append(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}
