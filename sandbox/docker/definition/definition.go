// Package definition reads the definition of an image (Dockerfile reference) as far as it
// matters to who has it built.
//
// The promise: the text that it gives on is the one that it read, each instruction on one
// line, with nothing left that another reader could join, leave out or read as more lines;
// what the engine itself would fetch, past the guardian, is refused by line. The room
// builds nothing.
//
// Most readers want [Read].
package definition

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Bad says where a definition asks for what no build does.
type Bad struct {
	File string
	Line int
	Msg  string
	Hint string
}

func (e *Bad) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Hints are the words of what to do.
func (e *Bad) Hints() []string { return []string{e.Hint} }

// Origin is what a stage of a definition begins with, and the lines that say so.
type Origin struct {
	Name       string // of the image, its arguments replaced
	as         string // the stage's own name; empty for none
	line, last int
	// Stage: it is one of the definition's own. bare: nothing lies under it.
	Stage, bare bool
}

// Read gives the origins of a definition's stages, and the definition as it
// was read: each instruction on one line of its own, with nothing left that another
// reader could join, leave out or read as more lines. The engine gets that text.
func Read(file string, text []byte, files bool, given map[string]string) ([]Origin, []byte, error) {
	r := &reader{
		file: file, files: files, args: map[string]string{}, given: given,
		stages: map[string]bool{"scratch": true}, bare: map[string]bool{"scratch": true},
	}
	var out bytes.Buffer
	whole, began := "", 0
	lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(string(text), "\ufeff"), "\n"), "\n")
	for at, line := range lines {
		n := at + 1
		line = strings.TrimSuffix(line, "\r")
		if strings.ContainsFunc(line, func(c rune) bool { return c < ' ' && c != '\t' }) {
			return nil, nil, r.bad(n, "leave it out", "the line has a control character")
		}
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' { // also in the midst of an instruction
			if err := r.directive(trimmed, n); err != nil {
				return nil, nil, err
			}
			if whole == "" || n < len(lines) {
				if whole == "" {
					out.WriteString("#\n")
				}
				continue
			}
			line = ""
		}
		if whole == "" {
			began = n
		}
		if m := continued().FindStringSubmatchIndex(line); m != nil && n < len(lines) {
			whole += line[:m[2]]
			if whole == "" {
				whole = " "
			}
			continue
		} else if m != nil {
			line = line[:m[2]]
		}
		whole += line
		words := strings.Fields(whole)
		if len(words) == 0 {
			out.WriteString(strings.Repeat("#\n", n-began+1))
			whole = ""
			continue
		}
		if err := r.instruction(words, began, n); err != nil {
			return nil, nil, err
		}
		out.WriteString(strings.TrimSpace(whole) + "\n" + strings.Repeat("#\n", n-began))
		whole = ""
	}
	if len(r.out) == 0 {
		return nil, nil, r.bad(1, "such as FROM debian:trixie-slim", "it begins with no image")
	}
	return r.out, out.Bytes(), nil
}

// Begun is a definition that begins a stage with another image than it says.
func Begun(text []byte, o Origin, name string) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	from := "FROM " + name
	if o.as != "" {
		from += " AS " + o.as
	}
	// As many lines as before: places in errors stay what they are.
	lines[o.line-1] = []byte(from + "\n")
	for n := o.line; n < o.last; n++ {
		lines[n] = []byte("#\n")
	}
	return bytes.Join(lines, nil)
}

// trusted is where the steps of a build find the authorities that they trust.
const trusted = "/etc/ssl/cloister-build.crt"

// What a build has beside its files: the definition, and the authorities that its steps
// trust.
const (
	File            = ".cloister-dockerfile"
	AuthoritiesFile = ".cloister-authorities.crt"
)

// Trusting is a definition whose steps trust the authorities of this host: behind
// a company's, or where the guardian opens a connection, those of the image are not
// enough. place is what COPY names. The variables are the steps' alone; the image has the file.
func Trusting(text []byte, from []Origin, place string, variables []string) []byte {
	args := "ARG " + strings.Join(variables, "="+trusted+" ") + "=" + trusted
	var out bytes.Buffer
	for n, line := range bytes.SplitAfter(text, []byte("\n")) {
		out.Write(line)
		at := slices.IndexFunc(from, func(o Origin) bool { return o.last == n+1 })
		if at < 0 || from[at].bare {
			continue
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			out.WriteByte('\n')
		}
		if !from[at].Stage {
			out.WriteString("COPY " + place + " " + trusted + "\n")
		}
		out.WriteString(args + "\n")
	}
	return out.Bytes()
}
