package approvals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/ui/tui"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *Commands) approvalsWatch() *cobra.Command {
	var asJSON, lines bool
	c := &cobra.Command{
		Use:   "watch",
		Short: "See each question as it comes; while this runs, asks wait for an answer",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			w := &watching{a: a, asJSON: asJSON, seen: map[string]string{}}
			if !asJSON && !lines && term.IsTerminal(int(a.Stdin.Fd())) && term.IsTerminal(int(a.Stdout.Fd())) {
				return a.watchPanel(ctx, w, nil)
			}
			err := w.run(ctx)
			if ctx.Err() != nil {
				return nil // the person has seen enough
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	c.Flags().BoolVar(&lines, "lines", false, "print lines, on a terminal too, instead of the whole screen")
	return c
}

// watching is one `approvals watch` that writes lines.
type watching struct {
	a      *Commands
	asJSON bool
	seen   map[string]string // the state that was printed, by ID
	last   string            // ID of the last event
	panel  func(tui.News)    // the whole screen; nil for lines
	stale  chan<- struct{}   // of a panel: its page of time is out of date
}

// Again is how soon a guardian that went away is looked for.
const Again = 200 * time.Millisecond

// run watches one guardian after the other.
func (w *watching) run(ctx context.Context) error {
	for {
		c, err := w.a.Ensure(ctx)
		if err != nil {
			return err
		}
		err = w.follow(ctx, c)
		c.Close()
		var refused *api.Error
		if ctx.Err() != nil || errors.As(err, &refused) {
			return err
		}
		if flushed := w.a.Out.Flush(); flushed != nil {
			return fmt.Errorf("write the answer: %w", flushed)
		}
		w.a.Log().Debug("the guardian went away", "error", err)
		if w.panel != nil {
			w.panel(tui.News{Note: "the guardian went away; looking for the next"})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(Again):
		}
	}
}

func (w *watching) follow(ctx context.Context, c *client.Client) error {
	var failed error
	events := c.Events
	if w.panel != nil { // its page of time is about what is recorded
		events = c.EventsRecorded
	}
	err := events(ctx, w.last, func(e api.Event) bool {
		w.last = e.ID
		failed = w.event(ctx, c, e)
		return failed == nil
	})
	return errors.Join(failed, err)
}

func (w *watching) event(ctx context.Context, c *client.Client, e api.Event) error {
	switch e.Type {
	case api.EventHello, api.EventReset:
		if w.panel != nil {
			w.panel(tui.News{Note: "watching"})
			w.changed(e)
		} else if e.Type == api.EventHello {
			w.a.Notice("cloister: watching; asks wait for an answer while this runs")
		}
		list, err := c.Approvals(ctx, w.panel != nil)
		if err != nil {
			return err
		}
		slices.SortFunc(list, func(x, y api.Approval) int { return x.CreatedAt.Compare(y.CreatedAt) })
		for _, i := range list {
			w.tell(i)
		}
	case api.EventApproval:
		var i api.Approval
		if err := json.Unmarshal(e.Data, &i); err != nil {
			return fmt.Errorf("watch approvals: %w", err)
		}
		w.tell(i)
	case api.EventAudit, api.EventSession:
		w.changed(e)
	}
	if err := w.a.Out.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// tell writes a question once for each state that it has.
func (w *watching) tell(i api.Approval) {
	if w.seen[i.ID] == i.State {
		return
	}
	w.seen[i.ID] = i.State
	if w.panel != nil {
		w.panel(tui.News{Approval: &i})
		return
	}
	if i.State != "pending" {
		delete(w.seen, i.ID) // ended: it does not come again
	}
	if w.asJSON {
		text, err := json.Marshal(i)
		if err != nil {
			return // a struct of strings and times
		}
		w.a.Out.Write(append(text, '\n'))
		return
	}
	if i.State != "pending" {
		by := ""
		if i.By != "" {
			by = ", " + i.Scope + ", by " + i.By
		}
		w.a.Line("%s  %s%s", i.ID, i.State, by)
		return
	}
	w.a.Line("%s  %s asks to %s  (%s left)", i.ID, i.Session, i.Title, cli.Age(time.Until(i.ExpiresAt)))
	w.a.Line("          because %s", i.Reason)
	if i.Marks != "" {
		w.a.Line("          beware: it holds %s", i.Marks)
	}
	for _, d := range i.Details {
		w.a.Line("            %s: %s", d.Label, d.Text)
	}
	if i.Waiting > 1 {
		w.a.Line("            waiting: %d, each with a question of its own", i.Waiting)
	}
	for _, c := range i.Covers {
		w.a.Line("            %s", coverLine(c))
	}
	w.a.Line("          answer: cloister approvals approve %s, or deny %s", i.ID, i.ID)
}
