// Package rows reads what the corpus of attempts prints, a row for each case.
//
// It promises to pass on all but the rows of cases that passed. Most readers want Failing.
package rows

import (
	"io"
	"strings"
	"time"
)

// Failing passes rows on to Out but those that passed.
type Failing struct {
	Out  io.Writer
	rest string
}

// Write takes a part of the output.
func (f *Failing) Write(p []byte) (int, error) {
	text := f.rest + string(p)
	at := strings.LastIndex(text, "\n") + 1
	f.rest = text[at:]
	for line := range strings.Lines(text[:at]) {
		if words := strings.Fields(line); len(words) > 1 && words[1] == "ok" {
			continue
		}
		if _, err := io.WriteString(f.Out, line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush passes on a last line that has no end.
func (f *Failing) Flush() error {
	_, err := io.WriteString(f.Out, f.rest)
	return err
}

// Spent passes on how much processor time the program took.
func (f *Failing) Spent(d time.Duration) {
	if log, ok := f.Out.(interface{ Spent(d time.Duration) }); ok {
		log.Spent(d)
	}
}
