// Package main is cloister-fleet: what servers and fleets need of a record, apart from the program
// that people start many times a day.
//
// It promises that cloister itself carries none of the libraries that it does, and that nothing of
// it stands between a request and its decision: it reads what cloister has written.
//
// It starts no session, and does not judge.
//
// Most readers want telemetryCommand.
package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"cloister/cmd/cloister/cli"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a := &cli.App{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, UID: os.Getuid(),
		Out: bufio.NewWriter(os.Stdout), Env: cli.NewEnviron(os.Environ()), Args: os.Args[1:],
	}
	err := newRoot(a).ExecuteContext(ctx)
	err = errors.Join(err, a.Out.Flush())
	a.Complain(err)
	os.Exit(exitStatus(err))
}

func exitStatus(err error) int {
	var words *cli.UsageError
	switch {
	case err == nil:
		return cli.StatusDone
	case errors.As(err, &words):
		return cli.StatusWords
	default:
		return cli.StatusFailed
	}
}

func newRoot(a *cli.App) *cobra.Command {
	root := cli.Group("cloister-fleet", "What servers and fleets do with the record of cloisters",
		telemetryCommand(a), shipCommand(a), fetchCommand(a), databaseCommand(),
		objectsCommand(a))
	root.Version = cli.Version()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.Out)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Usage("", "%v", err) })
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notices, only errors")
	return root
}
