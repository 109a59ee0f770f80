// Package rows has the rows that checks print or write: of attempts, and of tables in documents.
//
// It promises to pass on all but the rows of cases that passed, and to change nothing of a document but the rows
// between two marks. Most readers want Failing.
package rows

import (
	"fmt"
	"io"
	"os"
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

// Write puts the rows of the table with a name between its marks in a document.
func Write(doc, name, rows string) error {
	begin, end := "<!-- "+name+": script/test differential writes them -->\n", "<!-- end of "+name+" -->"
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	table, err := os.ReadFile(rows)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s has no marks for its rows", doc)
	}
	return os.WriteFile(doc, []byte(head+begin+string(table)+end+tail), 0o644)
}
