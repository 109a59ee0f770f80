package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"cloister/api"
	"cloister/internal/hint"
)

// The exit statuses, besides those of wrapped commands.
const (
	StatusDone       = 0
	StatusFailed     = 1
	StatusWords      = 2
	StatusUnbuilt    = 125
	StatusExecute    = 126
	StatusNotFound   = 127
	StatusSignalBase = 128
)

// UsageError says that the words typed are wrong.
type UsageError = hint.UsageError

func Usage(advice, format string, args ...any) error { return hint.Usage(advice, format, args...) }

// UnbuiltError says that cloister could not build the enclosure.
type UnbuiltError struct{ Err error }

func (e *UnbuiltError) Error() string { return e.Err.Error() }

func (e *UnbuiltError) Unwrap() error { return e.Err }

// StatusError ends with a status and says nothing: what there was to say has
// been said, by the wrapped command or in the answer.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }

// Hinted adds words of what to do.
func Hinted(err error, hints ...string) error { return hint.With(err, hints...) }

// Complain tells the person what went wrong: a line for each error, each with
// its hints under it.
func (a *App) Complain(err error) {
	var silent *StatusError
	if err == nil || errors.As(err, &silent) {
		return
	}
	_, unbuilt := errors.AsType[*UnbuiltError](err)
	for _, e := range apart(err) {
		for line := range strings.SplitSeq(e.Error(), "\n") {
			fmt.Fprintf(a.Stderr, "cloister: %s\n", a.Printable(a.Stderr, line))
		}
		hints := HintsOf(e)
		if unbuilt && len(hints) == 0 {
			hints = folderHints(e)
		}
		if len(hints) == 0 && (errors.Is(e, syscall.ENOSPC) || errors.Is(e, syscall.EDQUOT)) {
			hints = []string{"make room on that disk, then the same again"}
		}
		if unbuilt && a.Env.Get("CLOISTER") == "1" {
			hints = append([]string{"this is inside the cloister " + a.Env.Get("CLOISTER_NAME") +
				" already: run the command as it is"}, hints...)
		}
		for _, h := range hints {
			fmt.Fprintf(a.Stderr, "hint: %s\n", a.Printable(a.Stderr, h))
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

// HintsOf gathers the hints of an error and of what it wraps, each once.
func HintsOf(err error) []string {
	return hint.Of(err, func(err error) []string {
		//nolint:errorlint // the tree itself is read here
		if e, ok := err.(*api.Error); ok {
			return e.Hints
		}
		return nil
	})
}
