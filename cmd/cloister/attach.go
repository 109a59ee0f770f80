package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/approvals"
	"cloister/cmd/cloister/cli"
	"cloister/internal/peercred"
	"cloister/internal/xdg"
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
	conn, err := knock(ctx, c, doorPath(d, info.ID), info.SessionInfo)
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
	bell.Go(func() { a.ringing(watching, info, asked) })
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

// ringing follows the questions of one session that wait, as long as ctx lasts.
func (a *app) ringing(ctx context.Context, info api.SessionInfo, asked chan<- terminal.Asked) {
	for ctx.Err() == nil {
		if c, err := a.Dial(ctx); err == nil {
			err = a.asks(ctx, c, info, asked)
			c.Close()
			if _, refused := errors.AsType[*api.Error](err); refused {
				return // it has ended, or too many watch
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(approvals.Again):
		}
	}
}

func (a *app) asks(ctx context.Context, c *client.Client, info api.SessionInfo, asked chan<- terminal.Asked) error {
	pending := map[string]api.Approval{}
	take := func(i api.Approval) {
		if i.Session == info.Name && i.State == "pending" {
			pending[i.ID] = i
		} else {
			delete(pending, i.ID)
		}
	}
	return c.EventsOf(ctx, info.ID, func(e api.Event) bool {
		switch e.Type {
		case api.EventHello, api.EventReset:
			list, err := c.Approvals(ctx, false)
			if err != nil {
				return false
			}
			clear(pending)
			for _, i := range list {
				take(i)
			}
		case api.EventApproval:
			var i api.Approval
			if json.Unmarshal(e.Data, &i) != nil {
				return false
			}
			take(i)
		default:
			return true
		}
		oldest := slices.SortedFunc(maps.Values(pending), func(x, y api.Approval) int {
			return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
		})
		select {
		case asked <- terminal.AskedOf(oldest):
			return true
		case <-ctx.Done():
			return false
		}
	})
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

// door is the socket at which a cloister's terminal is found.
type door struct {
	path     string
	listener *net.UnixListener
}

func (d *door) open(path string, uid int) error {
	if err := xdg.Private(filepath.Dir(path), uid); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("make the terminal's socket: %w", err)
	}
	d.path, d.listener = path, l
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("make the terminal's socket: %w", err)
	}
	return nil
}

// close takes the socket away; twice does no harm.
func (d *door) close() {
	if d.listener != nil {
		d.listener.Close()
		d.listener = nil
	}
}

// sweepDoors removes the sockets that crashed sessions left.
func sweepDoors(d xdg.Dirs, live []string) error {
	entries, err := os.ReadDir(doorsDir(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep terminals: %w", err)
	}
	var errs []error
	for _, e := range entries {
		alive := false
		for _, id := range live {
			alive = alive || strings.HasPrefix(id, e.Name())
		}
		path := filepath.Join(doorsDir(d), e.Name())
		if alive || answers(path) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep terminals: %w", err))
		}
	}
	return errors.Join(errs...)
}

// answers reports whether anyone listens at a socket.
func answers(path string) bool {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return true
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
