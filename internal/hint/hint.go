// Package hint holds errors that carry advice: what a person can do about them.
//
// The promise: the text of an error stays one statement of what failed, and the
// advice is kept apart from it, so that a terminal prints it as "hint:" lines and
// an API sends it as a list. It prints nothing and knows no exit status.
//
// Most readers want [With] and [Of], and [Usage] for words that a person typed wrongly.
package hint

import (
	"fmt"
	"slices"
)

// UsageError is about the words that a person typed: the command line ends with exit
// status 2 for it.
type UsageError struct{ Msg, Hint string }

// Usage makes a [UsageError]. An empty hint adds none.
func Usage(hint, format string, args ...any) error {
	return &UsageError{Msg: fmt.Sprintf(format, args...), Hint: hint}
}

func (e *UsageError) Error() string { return e.Msg }

// Hints are the lines of advice.
func (e *UsageError) Hints() []string {
	if e.Hint == "" {
		return nil
	}
	return []string{e.Hint}
}

// An Error is an error with advice.
type Error struct {
	err   error
	hints []string
}

// With adds advice to an error.
func With(err error, hints ...string) error { return &Error{err, hints} }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap gives the error without its advice.
func (e *Error) Unwrap() error { return e.err }

// Hints are the lines of advice.
func (e *Error) Hints() []string { return e.hints }

// Of gathers the advice of an error and of what it wraps, each line once. The
// functions give that of error types which carry theirs otherwise.
func Of(err error, also ...func(error) []string) []string {
	var out []string
	var walk func(error)
	walk = func(err error) {
		if err == nil {
			return
		}
		if e, ok := err.(interface{ Hints() []string }); ok {
			out = append(out, e.Hints()...)
		} else {
			for _, f := range also {
				out = append(out, f(err)...)
			}
		}
		//nolint:errorlint // the tree itself is read here
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range e.Unwrap() {
				walk(e)
			}
		}
	}
	walk(err)
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(line string) bool {
		twice := seen[line]
		seen[line] = true
		return twice
	})
}
