package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/approvals"
	"cloister/cmd/cloister/cli"
	"cloister/internal/peercred"
	"cloister/session/terminal"

	"github.com/spf13/cobra"
)

func (a *app) attachCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "attach NAME",
		Short: "Attach this terminal to a cloister; Ctrl-P Ctrl-Q detaches",
		Long: `Attach this terminal to a cloister that "cloister start" made, beside others
that are attached already. It shows what the cloister's terminal shows and has
shown; the terminal gets the size of the smallest. Ctrl-P Ctrl-Q detaches.`,
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.CompleteSessions(false),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.attach(cmd.Context(), args[0]) },
	}
}

// attach shows a cloister's terminal here until the person detaches or it ends.
func (a *app) attach(ctx context.Context, name string) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	c, err := a.Ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	info, err := c.Session(ctx, name)
	if err != nil {
		return a.SessionError(ctx, c, name, err)
	}
	if !info.Terminal && (info.State == api.StateStopped || info.State == api.StateFailed) {
		return cli.Hinted(ended(info.SessionInfo), "cloister logs "+info.Name+" prints what it wrote in the background")
	}
	if !info.Terminal {
		return cli.Hinted(fmt.Errorf("attach to %s: it has no terminal, since cloister run started it", info.Name),
			"cloister logs -f "+info.Name, "cloister exec "+info.Name)
	}
	conn, err := knock(ctx, c, terminal.DoorOf(d.Runtime, info.ID), info.SessionInfo)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := peercred.Require(conn, a.UID); err != nil {
		return fmt.Errorf("attach to %s: %w", info.Name, err)
	}
	out, err := a.attached(ctx, conn, info.SessionInfo)
	switch {
	case errors.Is(err, terminal.ErrNoTerminal):
		return cli.Hinted(fmt.Errorf("attach to %s: %w", info.Name, err),
			"cloister logs -f "+info.Name+" prints what it writes")
	case err != nil:
		return fmt.Errorf("attach to %s: %w", info.Name, err)
	case out.Detached:
		a.Notice("detached from %s; back again: cloister attach %s", info.Name, info.Name)
		return nil
	case out.End == nil:
		return a.vanished(ctx, c, info.SessionInfo)
	}
	a.Notices(out.End.Notices)
	if out.End.Status != 0 {
		return &cli.StatusError{Status: out.End.Status}
	}
	return nil
}

// attached shows the terminal with what is asked, and takes answers. Who sits there
// watches this session: its asks wait for an answer.
func (a *app) attached(ctx context.Context, conn *net.UnixConn, info api.SessionInfo) (terminal.Outcome, error) {
	watching, stop := context.WithCancel(ctx)
	asked := make(chan terminal.Asked)
	var bell sync.WaitGroup
	bell.Go(func() { terminal.FollowQuestions(watching, a.Dial, approvals.Again, info, asked) })
	out, err := terminal.Attach(ctx, conn, a.Stdin, a.Stdout, asked, a.answerHere)
	stop()
	bell.Wait()
	return out, err
}

// answerHere is an answer that was given in the attached terminal.
func (a *app) answerHere(ctx context.Context, r terminal.Reply) string {
	scope := "once"
	if r.Session {
		scope = "session"
	}
	err := a.WithGuardian(ctx, func(c *client.Client) error {
		_, err := c.Answer(ctx, r.ID, r.Allow, api.ApprovalReply{Scope: scope, Via: "terminal", Nonce: r.Nonce})
		return err
	})
	if err != nil {
		return err.Error()
	}
	return ""
}

// vanished is the error for a cloister whose shim went without a word.
func (a *app) vanished(ctx context.Context, c *client.Client, was api.SessionInfo) error {
	reason := "its shim is gone"
	deadline := time.NewTimer(time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		if info, err := c.Session(ctx, was.ID); err == nil && info.State == api.StateFailed {
			reason, waiting = info.Reason, false
			continue
		}
		select {
		case <-ctx.Done():
			waiting = false
		case <-deadline.C:
			waiting = false
		case <-tick.C:
		}
	}
	return cli.Hinted(fmt.Errorf("%s is no more: %s", was.Name, reason), "cloister list -a shows what became of it",
		"cloister start begins another")
}

// knock connects to a terminal, that of a cloister too which is about to start.
func knock(ctx context.Context, c *client.Client, path string, info api.SessionInfo) (*net.UnixConn, error) {
	deadline := time.NewTimer(cli.ComeBack)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if info.State != api.StateStarting && info.State != api.StateRunning {
			return nil, cli.Hinted(ended(info), "cloister start begins another",
				"cloister logs "+info.Name+" prints what it wrote")
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", path)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return nil, fmt.Errorf("attach to %s: %w", info.Name, err)
		case <-tick.C:
		}
		if now, err := c.Session(ctx, info.ID); err == nil {
			info = now.SessionInfo
		}
	}
}

// ended is the error for a cloister that is over.
func ended(info api.SessionInfo) error {
	text := fmt.Sprintf("attach to %s: it is %s", info.Name, info.State)
	if info.Reason != "" {
		text += ": " + info.Reason
	}
	return errors.New(text)
}

func (a *app) pathCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "path NAME",
		Short:             "Print the host path of a cloister's files",
		Args:              cli.Args(1, 1),
		ValidArgsFunction: a.CompleteSessions(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			info, err := c.Session(cmd.Context(), args[0])
			if err != nil {
				return a.SessionError(cmd.Context(), c, args[0], err)
			}
			fmt.Fprintln(a.Out, info.Path) // byte for byte: it is a path
			return nil
		},
	}
}
