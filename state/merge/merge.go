// Package merge joins changes of one text that two made, and takes some of one's.
//
// The promise: what [ThreeWay] gives has every change of both sides, and where both
// changed the same or touching lines it gives none but says which. It works by whole
// lines and never guesses: two different insertions at one place are a conflict.
//
// It reads and writes no files, and does not know what is text: its caller does.
//
// The calls most readers want are [ThreeWay] and [Hunks].
package merge

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// Clash is a run of lines of the base that both sides changed, differently. Lines count
// from 1; of an insertion Last is the line before it.
type Clash struct{ First, Last int }

// String tells the lines.
func (c Clash) String() string {
	switch {
	case c.Last < c.First:
		return fmt.Sprintf("before line %d", c.First)
	case c.First == c.Last:
		return fmt.Sprintf("line %d", c.First)
	}
	return fmt.Sprintf("lines %d to %d", c.First, c.Last)
}

// ThreeWay merges two texts that were made of one base. With a clash there is no text.
func ThreeWay(base, mine, theirs string) (merged string, clashes []Clash, err error) {
	x, y := edits(base, mine), edits(base, theirs)
	var all []udiff.Edit
	for len(x) > 0 || len(y) > 0 {
		switch {
		case len(y) == 0 || len(x) > 0 && x[0].End < y[0].Start:
			all, x = append(all, x[0]), x[1:]
		case len(x) == 0 || y[0].End < x[0].Start:
			all, y = append(all, y[0]), y[1:]
		case x[0] == y[0]:
			all, x, y = append(all, x[0]), x[1:], y[1:]
		default:
			var at udiff.Edit
			at, x, y = together(x, y)
			clashes = append(clashes, linesOf(base, at))
		}
	}
	if len(clashes) > 0 {
		return "", clashes, nil
	}
	if merged, err = udiff.Apply(base, all); err != nil {
		return "", nil, fmt.Errorf("merge: %w", err)
	}
	return merged, nil, nil
}

// together takes from both sides all that touches, one by way of the other.
func together(x, y []udiff.Edit) (at udiff.Edit, restX, restY []udiff.Edit) {
	at = udiff.Edit{Start: min(x[0].Start, y[0].Start), End: max(x[0].End, y[0].End)}
	x, y = x[1:], y[1:]
	for again := true; again; {
		again = false
		for _, side := range []*[]udiff.Edit{&x, &y} {
			if s := *side; len(s) > 0 && s[0].Start <= at.End {
				at.End, *side, again = max(at.End, s[0].End), s[1:], true
			}
		}
	}
	return at, x, y
}

func linesOf(base string, e udiff.Edit) Clash {
	first := strings.Count(base[:e.Start], "\n") + 1
	changed := base[e.Start:e.End]
	count := strings.Count(changed, "\n")
	if changed != "" && !strings.HasSuffix(changed, "\n") {
		count++
	}
	return Clash{first, first + count - 1}
}

// edits are the changes of whole lines, those that touch made one.
func edits(old, now string) []udiff.Edit {
	var out []udiff.Edit
	for _, e := range udiff.Lines(old, now) {
		if n := len(out); n > 0 && out[n-1].End == e.Start {
			out[n-1].End = e.End
			out[n-1].New += e.New
			continue
		}
		out = append(out, e)
	}
	return out
}

// Hunk is one change within a text.
type Hunk struct {
	Text string // as git diff shows it, from its @@ line on
	edit udiff.Edit
}

// Hunks takes a change apart.
func Hunks(old, now string) ([]Hunk, error) {
	var out []Hunk
	for _, e := range edits(old, now) {
		text, err := udiff.ToUnified("a", "b", old, []udiff.Edit{e}, udiff.DefaultContextLines)
		if err != nil {
			return nil, fmt.Errorf("take a change apart: %w", err)
		}
		_, body, _ := strings.Cut(text, "\n+++ b\n")
		out = append(out, Hunk{Text: body, edit: e})
	}
	return out, nil
}

// Take makes chosen hunks of a text.
func Take(old string, chosen []Hunk) (string, error) {
	var list []udiff.Edit
	for _, h := range chosen {
		list = append(list, h.edit)
	}
	text, err := udiff.Apply(old, list)
	if err != nil {
		return "", fmt.Errorf("make chosen changes: %w", err)
	}
	return text, nil
}
