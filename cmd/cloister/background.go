package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/internal/xdg"
	"cloister/session"
	"cloister/session/launch"
	"cloister/session/memory"

	"github.com/spf13/cobra"
)

// shimCommand is what detach and the guardian's window start this program as.
func (a *app) shimCommand() *cobra.Command {
	return &cobra.Command{
		Use: "shim", Hidden: true, Args: cli.Args(0, 0),
		Short: "Be the process of a cloister that another process of Cloister ordered",
		RunE: func(cmd *cobra.Command, _ []string) error {
			order, reply, err := launch.Receive()
			if err != nil {
				return cli.Usage("to start a cloister: cloister start, or cloister run -d -- CMD", "shim: %v", err)
			}
			f := runFlags{Order: order, reply: reply, passed: memory.Took(reply.Passed)}
			if err := order.Check(); err != nil {
				_ = reply.Send(failure(order.Verb, err))
				return nil
			}
			if order.Verb == "start" {
				return a.hold(cmd.Context(), &startFlags{runFlags: f}, order.Args)
			}
			return a.run(cmd.Context(), &f, order.Args)
		},
	}
}

// detach starts a shim as a process of its own, and waits until its command runs. Its
// output goes to a log.
func (a *app) detach(ctx context.Context, order launch.Order) (launch.Answer, error) {
	return a.detachWith(ctx, order)
}

// detachWith is detach with files that the shim is passed.
func (a *app) detachWith(ctx context.Context, order launch.Order, pass ...*os.File) (launch.Answer, error) {
	none := launch.Answer{}
	dirs, err := a.Dirs()
	if err != nil {
		return none, &cli.UnbuiltError{Err: err}
	}
	program, err := os.Executable()
	if err != nil {
		return none, &cli.UnbuiltError{Err: fmt.Errorf("find cloister itself: %w", err)}
	}
	self := a.Self(program, dirs)
	self.Env = os.Environ()
	child, err := self.Start(order, pass...)
	if err != nil {
		return none, &cli.UnbuiltError{Err: err}
	}
	answer, err := child.Answer(ctx)
	if _, said := errors.AsType[*launch.Failure](err); said {
		return none, err
	}
	if err != nil {
		return none, &cli.UnbuiltError{Err: err}
	}
	// The guardian learns it another way: the next caller finds it running.
	if c, err := a.Dial(ctx); err == nil {
		_ = cli.Settled(ctx, c) // it runs, whatever the guardian says
		c.Close()
	}
	return answer, nil
}

// announce wires a shim to the process that started it. The function that it gives
// reports a failure.
func announce(f *runFlags, s *session.Shim, dirs xdg.Dirs) func(error) {
	if f.reply == nil {
		return func(error) {}
	}
	name := ""
	s.Granted = func(grant api.SessionGrant) error {
		name = grant.Name
		return f.reply.NameLog(outputFile(dirs, name))
	}
	end := make(chan string, 1)
	s.End = end
	s.Running = func() {
		if err := f.reply.Send(launch.Answer{Name: name}); err != nil && f.Awaited {
			end <- "who ordered it is gone"
		}
	}
	return func(err error) { _ = f.reply.Send(failure(f.Verb, err)) }
}

func failure(verb string, err error) launch.Answer {
	return launch.Answer{Error: err.Error(), Hints: cli.HintsOf(err), Status: exitStatus(unbuilt(verb, err))}
}
