package main

import (
	"errors"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/launch"
)

// exitStatus is the one table from errors to exit statuses.
func exitStatus(err error) int {
	var (
		status  *cli.StatusError
		words   *cli.UsageError
		execute *sandbox.ExecError
		unbuilt *cli.UnbuiltError
		behind  *launch.Failure
		signal  *session.Interrupted
		srt     *srtFailure
	)
	switch {
	case err == nil:
		return cli.StatusDone
	case errors.As(err, &status):
		return status.Status
	case errors.As(err, &srt):
		return cli.StatusFailed
	case errors.As(err, &signal):
		return cli.StatusSignalBase + int(signal.Signal)
	case errors.As(err, &behind) && behind.Answer.Status != 0:
		return behind.Answer.Status
	case errors.As(err, &words):
		return cli.StatusWords
	case errors.As(err, &execute) && execute.NotFound:
		return cli.StatusNotFound
	case execute != nil:
		return cli.StatusExecute
	case errors.As(err, &unbuilt):
		return cli.StatusUnbuilt
	default:
		return cli.StatusFailed
	}
}
