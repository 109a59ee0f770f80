package page

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/escape"
)

// Facts are the cases, and what was seen of them.
type Facts struct {
	Cases   []escape.Case
	Missing []escape.Missing
	Seen    escape.Seen
	// Holds are what was seen with layers left out, by kind of cloister and by who started it.
	Holds map[escape.Column]map[string]escape.Holds
}

// Read reads what was seen from the folder that keeps it, escape/testdata.
func Read(dir string, cases []escape.Case, missing []escape.Missing) (Facts, error) {
	f := Facts{Cases: cases, Missing: missing, Holds: map[escape.Column]map[string]escape.Holds{}}
	text, err := os.ReadFile(filepath.Join(dir, "columns.tsv"))
	if err != nil {
		return f, err
	}
	if f.Seen, err = escape.ParseSeen(string(text)); err != nil {
		return f, err
	}
	for _, column := range escape.Columns() {
		f.Holds[column] = map[string]escape.Holds{}
		for _, as := range column.By() {
			file := filepath.Join(dir, HoldsFile(column, as))
			text, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) && column != escape.Native {
				continue
			}
			if err != nil {
				return f, err
			}
			if f.Holds[column][as], err = escape.ParseHolds(string(text)); err != nil {
				return f, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return f, nil
}

// HoldsFile is the name of the file that keeps what was seen with layers left out.
func HoldsFile(column escape.Column, as string) string {
	if column == escape.Native {
		return "holds-" + as + ".tsv"
	}
	return fmt.Sprintf("holds-%s-%s.tsv", column, as)
}
