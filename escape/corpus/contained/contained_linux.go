// Package contained has the attempts on what an engine makes of a container: what it was told, and
// what an old one answers.
//
// Most readers want [Cases].
package contained

import (
	"fmt"

	"cloister/escape"
)

// Cases are the attempts.
func Cases() []escape.Case { return []escape.Case{spec(), old()} }

// noHost is a finding of a look that could not be made.
func noHost(name string, err error) []escape.Finding {
	return []escape.Finding{{Name: name, Detail: err.Error()}}
}

func found(name string, held bool, format string, args ...any) escape.Finding {
	return escape.Finding{Name: name, Held: held, Detail: fmt.Sprintf(format, args...)}
}

// outcome runs a command in a cloister and gives what came of it.
func outcome(w *escape.World, flags []string, argv ...string) escape.Result {
	res, err := w.Run(flags, argv...)
	if err != nil {
		res.Stderr += err.Error()
		res.Status = -1
	}
	return res
}
