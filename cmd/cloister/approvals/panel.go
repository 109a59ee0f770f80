package approvals

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"cloister/api"
	"cloister/api/client"
	"cloister/ui/tui"
	"cloister/ui/tui/moments"
)

// WatchTime shows the panel's page of time, of one workspace where there is a name. Who has it
// open watches: asks wait for an answer meanwhile, and stand over the page.
func (a *Commands) WatchTime(ctx context.Context, name string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return a.watchPanel(ctx, &watching{a: a, seen: map[string]string{}}, &name)
}

// watchPanel shows the questions on the whole screen, and takes answers there. It begins with
// the page of time of a workspace where there is a name, which may be empty.
func (a *Commands) watchPanel(ctx context.Context, w *watching, ofTime *string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	news, stale := make(chan tui.News), make(chan struct{}, 1)
	w.stale = stale
	w.panel = func(n tui.News) {
		select {
		case news <- n:
		case <-ctx.Done():
		}
	}
	followed := make(chan error, 1)
	go func() {
		defer stop() // a guardian that cannot be reached ends the screen
		followed <- w.run(ctx)
	}()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	p := tui.Panel{
		In: a.Stdin, Out: a.Stdout, ASCII: a.ASCII(a.Stdout), Colourless: a.Env.Get("NO_COLOR") != "",
		Resized: resized, News: news, Stale: stale, Answer: a.answerIn(ctx), Time: a.timeOf,
	}
	if ofTime != nil {
		p.OnTime, p.Name = true, *ofTime
	}
	err := p.Run(ctx)
	left := ctx.Err() == nil
	stop()
	if errWatch := <-followed; err == nil && !left {
		err = errWatch
	}
	return err
}

// answerIn gives a person's word to the guardian.
func (a *Commands) answerIn(ctx context.Context) tui.Answer {
	return func(id string, allow bool, r api.ApprovalReply) (text string, err error) {
		err = a.WithGuardian(ctx, func(c *client.Client) error {
			i, err := c.Answer(ctx, id, allow, r)
			text = i.ID + " " + stateOf(i)
			return err
		})
		return text, err
	}
}

// timeOf is what the page of time asks of the guardian: what the window asks, by the same routes.
func (a *Commands) timeOf(ctx context.Context) moments.Guardian {
	with := func(f func(*client.Client) error) error { return a.WithGuardian(ctx, f) }
	return moments.Guardian{
		Spaces: func() (list []api.Workspace, sessions []api.SessionInfo, err error) {
			err = with(func(c *client.Client) error {
				if list, err = c.Workspaces(ctx); err == nil {
					sessions, err = c.Sessions(ctx, false)
				}
				return err
			})
			return list, sessions, err
		},
		Records: func(name string) (list []api.Record, err error) {
			err = with(func(c *client.Client) error {
				out, err := c.Recorded(ctx, name)
				list = out.Records
				return err
			})
			return list, err
		},
		Diff: func(name, at, since, path string) (d api.WorkspaceDiff, err error) {
			err = with(func(c *client.Client) error {
				d, err = c.WorkspaceDiff(ctx, name, at, since, path)
				return err
			})
			return d, err
		},
		Act: func(name, verb string, in api.WorkspaceAct) (out api.WorkspaceActed, err error) {
			err = with(func(c *client.Client) error {
				out, err = c.Act(ctx, name, verb, in)
				return err
			})
			return out, err
		},
	}
}

// changed tells a panel that its page of time is out of date, if what happened is on it. It
// waits for nothing: what is not taken up yet is taken up with this.
func (w *watching) changed(e api.Event) {
	if w.stale == nil {
		return
	}
	if r := (api.Record{}); e.Type == api.EventAudit &&
		(json.Unmarshal(e.Data, &r) != nil || !moments.Tells(r) && !strings.HasPrefix(r.Kind, "state.")) {
		return
	}
	select {
	case w.stale <- struct{}{}:
	default:
	}
}
