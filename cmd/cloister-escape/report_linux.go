package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/escape"
	"cloister/escape/corpus"
	"cloister/escape/page"
)

func report(rows []escape.Row, verbose bool) (failed int) {
	for _, r := range rows {
		word := "ok"
		if !r.Passed() {
			word = "FAIL"
			failed++
		}
		parts := []string{fmt.Sprintf("%d held", len(r.Answers)+len(r.Findings))}
		if r.Case.Tries != nil {
			parts = append(parts, fmt.Sprintf("%d of %d controls", r.Controls, len(r.Answers)))
		}
		if len(r.Case.Due) > 0 {
			parts = append(parts, fmt.Sprintf("%d records", r.Records))
		}
		parts = append(parts, "by "+strings.Join(r.Case.Layers, ", "), "source: "+r.Case.Source)
		if len(r.Off) > 0 {
			parts = append(parts, page.Text(r.Case, r.Hold()))
		}
		fmt.Printf("%-7s %-4s %-28s %s\n", r.Case.ID, word, r.Case.Class, strings.Join(parts, "; "))
		for _, p := range r.Problems {
			fmt.Printf("        | %s\n", clip(p, 12))
		}
		if !verbose {
			continue
		}
		for _, a := range r.Answers {
			fmt.Printf("          %-4s %-20s %s\n", a.State, a.Text, a.Try)
		}
		for _, e := range r.Excused {
			fmt.Printf("          no control: %s\n", e)
		}
		for _, layer := range escape.Layers() {
			if try := r.Off[layer].Opens; try != "" {
				fmt.Printf("          opens without %s: %s\n", layer, try)
			}
		}
	}
	return failed
}

// clip is a text of at most so many lines, the first and the last.
func clip(text string, most int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if over := len(lines) - most; over > 0 {
		lines = slices.Replace(lines, most/2, most/2+over, fmt.Sprintf("... %d lines ...", over))
	}
	return strings.Join(lines, "\n        |   ")
}

// added writes what came of a case at the end of the file of columns: several runs write one file at a time, and
// what is cut off keeps what it saw. Lines are put in order by documents.
func added(file string, column escape.Column, r escape.Row) error {
	who := "user"
	if os.Geteuid() == 0 {
		who = "root"
	}
	switch {
	case r.Undecided():
		who = escape.Undecided + who
	case !r.Passed():
		who = escape.Failed + who
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\t%s\t%s\n", r.Case.ID, column, who)
	return errors.Join(err, f.Close())
}

func readSeen(file string) (escape.Seen, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	seen, err := escape.ParseSeen(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return seen, nil
}

// compare holds what was seen of second layers to what is written down, or
// writes it down.
func compare(file string, rows []escape.Row, write bool) error {
	kept, err := readHolds(file)
	if write && errors.Is(err, os.ErrNotExist) {
		kept, err = escape.Holds{}, nil
	}
	if err != nil {
		return err
	}
	before := kept.Format(as(), corpus.All())
	for _, r := range rows {
		if r.Case.Tried() {
			kept[r.Case.ID] = r.Hold()
		}
	}
	now := kept.Format(as(), corpus.All())
	switch {
	case write:
		return os.WriteFile(file, []byte(now), 0o644)
	case now != before:
		return fmt.Errorf("second layers: %s says otherwise; script/test layers writes it anew:\n%s", filepath.Base(file),
			now)
	}
	return nil
}

// documents writes what readers see of the corpus.
func documents(repository string) error {
	columns := filepath.Join(repository, "escape/testdata/columns.tsv")
	seen, err := readSeen(columns)
	if err != nil {
		return err
	}
	if err := os.WriteFile(columns, []byte(seen.Format(corpus.All())), 0o644); err != nil {
		return err
	}
	facts, err := page.Read(filepath.Join(repository, "escape/testdata"), corpus.All(), corpus.Missing())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(repository, "docs/attempts.md"), []byte(facts.Attempts()), 0o644); err != nil {
		return err
	}
	security := filepath.Join(repository, "SECURITY.md")
	text, err := os.ReadFile(security)
	if err != nil {
		return err
	}
	with, err := facts.Security(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(security, []byte(with), 0o644)
}

func readHolds(file string) (escape.Holds, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	holds, err := escape.ParseHolds(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return holds, nil
}
