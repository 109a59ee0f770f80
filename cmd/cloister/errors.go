package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"cloister/api"
	"cloister/internal/hint"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/launch"
)

// The exit statuses, besides those of wrapped commands.
const (
	statusDone       = 0
	statusFailed     = 1
	statusWords      = 2
	statusUnbuilt    = 125
	statusExecute    = 126
	statusNotFound   = 127
	statusSignalBase = 128
)

// wordsError says that the words typed are wrong.
type wordsError = hint.UsageError

func wrongWords(advice, format string, args ...any) error { return hint.Usage(advice, format, args...) }

// unbuiltError says that cloister could not build the enclosure.
type unbuiltError struct{ err error }

func (e *unbuiltError) Error() string { return e.err.Error() }
func (e *unbuiltError) Unwrap() error { return e.err }

// statusError ends with a status and says nothing: what there was to say has
// been said, by the wrapped command or in the answer.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// hinted adds words of what to do.
func hinted(err error, hints ...string) error { return hint.With(err, hints...) }

// exitStatus is the one table from errors to exit statuses.
func exitStatus(err error) int {
	var (
		status  *statusError
		words   *wordsError
		execute *sandbox.ExecError
		unbuilt *unbuiltError
		behind  *launch.Failure
		signal  *session.Interrupted
		srt     *srtFailure
	)
	switch {
	case err == nil:
		return statusDone
	case errors.As(err, &status):
		return status.status
	case errors.As(err, &srt):
		return statusFailed
	case errors.As(err, &signal):
		return statusSignalBase + int(signal.Signal)
	case errors.As(err, &behind) && behind.Answer.Status != 0:
		return behind.Answer.Status
	case errors.As(err, &words):
		return statusWords
	case errors.As(err, &execute) && execute.NotFound:
		return statusNotFound
	case execute != nil:
		return statusExecute
	case errors.As(err, &unbuilt):
		return statusUnbuilt
	default:
		return statusFailed
	}
}

// complain tells the person what went wrong: a line for each error, each with
// its hints under it.
func (a *app) complain(err error) {
	var silent *statusError
	if err == nil || errors.As(err, &silent) {
		return
	}
	_, unbuilt := errors.AsType[*unbuiltError](err)
	for _, e := range apart(err) {
		for line := range strings.SplitSeq(e.Error(), "\n") {
			fmt.Fprintf(a.stderr, "cloister: %s\n", a.printable(a.stderr, line))
		}
		hints := hintsOf(e)
		if unbuilt && len(hints) == 0 {
			hints = folderHints(e)
		}
		if len(hints) == 0 && (errors.Is(e, syscall.ENOSPC) || errors.Is(e, syscall.EDQUOT)) {
			hints = []string{"make room on that disk, then the same again"}
		}
		if unbuilt && a.env.get("CLOISTER") == "1" {
			hints = append([]string{"this is inside the cloister " + a.env.get("CLOISTER_NAME") +
				" already: run the command as it is"}, hints...)
		}
		for _, h := range hints {
			fmt.Fprintf(a.stderr, "hint: %s\n", a.printable(a.stderr, h))
		}
	}
}

// folderHints are the way on where one of Cloister's own folders cannot be used.
func folderHints(err error) []string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return []string{"make room: what cannot be recorded does not run"}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return []string{"cloister doctor tells which folder is wrong, and what would fix it"}
	}
	return nil
}

// apart takes errors that were joined apart. One that was wrapped afterwards
// stays whole.
func apart(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error }) // the tree itself is read here
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, apart(e)...)
	}
	return out
}

// hintsOf gathers the hints of an error and of what it wraps, each once.
func hintsOf(err error) []string {
	return hint.Of(err, func(err error) []string {
		//nolint:errorlint // the tree itself is read here
		if e, ok := err.(*api.Error); ok {
			return e.Hints
		}
		return nil
	})
}
