// Package source is where something that a person wrote stands, and what is wrong there.
//
// Promise: configuration, rules, verdicts and every message about them have one type of
// position and one of problem, so that none is translated on its way.
//
// It reads no file.
//
// Most readers want [Position] and [Problem].
package source

import (
	"path/filepath"
	"strconv"
)

// Position is where something was written: a source that a person knows by name ("preset
// ai-apis", "config.yaml", "--allow"), and the place in a file if it has one. The zero
// value is the built-in default.
type Position struct {
	Source, File string
	Line, Column int // from 1; 0 is unknown
}

// From is the same place by the name of its source.
func (p Position) From(name string) Position {
	p.Source = name
	return p
}

// String is "file:line:column", "source (file:line:column)" or the source.
func (p Position) String() string {
	if p.File == "" {
		return p.Source
	}
	place := p.Place()
	if p.Line > 0 && p.Column > 0 {
		place += ":" + strconv.Itoa(p.Column)
	}
	if p.Source == "" || p.Source == p.File || p.Source == filepath.Base(p.File) {
		return place
	}
	return p.Source + " (" + place + ")"
}

// Place is "file:line", the file or, without one, the source.
func (p Position) Place() string {
	switch {
	case p.File == "":
		return p.Source
	case p.Line == 0:
		return p.File
	}
	return p.File + ":" + strconv.Itoa(p.Line)
}

// A Problem is one thing wrong at one place.
type Problem struct {
	Position
	Msg  string
	Hint string // what to write instead; may be empty
}

// Error says where and why, without the hint.
func (p *Problem) Error() string {
	if at := p.Position.String(); at != "" {
		return at + ": " + p.Msg
	}
	return p.Msg
}

// Hints are the words of what to do.
func (p *Problem) Hints() []string {
	if p.Hint == "" {
		return nil
	}
	return []string{p.Hint}
}
