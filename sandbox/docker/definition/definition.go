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
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
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

// reader reads a definition (Dockerfile reference) as far as it matters to who builds
// it: the images that it begins with, which are fetched before a step runs. What the
// engine itself would fetch, past the guardian, is refused.
type reader struct {
	file   string
	files  bool              // there are files beside the definition
	args   map[string]string // what FROM may name: given, or said before the first FROM
	given  map[string]string
	stages map[string]bool
	bare   map[string]bool
	out    []Origin
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

// continued finds where a line goes on in the next: after one backslash, not two.
var continued = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:.*[^\\])?(\\)[ \t]*$`) })

// directive refuses lines by which a definition would be read in another way.
func (r *reader) directive(line string, n int) error {
	key, value, ok := strings.Cut(strings.TrimPrefix(line, "#"), "=")
	if !ok || len(r.out) > 0 {
		return nil
	}
	value = strings.TrimSpace(value)
	switch strings.ToLower(strings.TrimSpace(key)) {
	case "escape":
		if value != `\` {
			return r.bad(n, "leave the line out", "a build knows no other escape than the backslash")
		}
	case "syntax":
		// The usual one asks for nothing else than what the engine's own builder does, or
		// the step that does fails by name.
		if !r.files || !strings.HasPrefix(value, "docker/dockerfile:1") {
			return r.bad(n, "leave the line out", "a build follows no other syntax than its own: %s", value)
		}
	}
	return nil
}

func (r *reader) bad(line int, hint, format string, args ...any) error {
	return &Bad{r.file, line, fmt.Sprintf(format, args...), hint}
}

// instruction reads one instruction, which lies between two lines.
func (r *reader) instruction(words []string, began, last int) error {
	for _, w := range words[1:] {
		if heredoc().MatchString(w) {
			return r.bad(began, "write a script in one RUN with && and a backslash, or a file beside the definition",
				"a text within the definition (%s) is not built", w)
		}
	}
	switch strings.ToUpper(words[0]) {
	case "ARG":
		if len(r.out) == 0 {
			r.arguments(words[1:])
		}
	case "ADD":
		return r.add(words[1:], began)
	case "COPY":
		return r.copy(words[1:], began)
	case "ONBUILD":
		return r.bad(began, "leave it out", "ONBUILD says what other builds do")
	case "FROM":
		return r.from(words[1:], began, last)
	}
	return nil
}

// heredoc is a word after which another reader takes the next lines for a text.
var heredoc = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]*<<-?[^<]*$`) })

// arguments takes what ARG says before the first FROM.
func (r *reader) arguments(words []string) {
	for _, w := range words {
		name, value, said := strings.Cut(w, "=")
		if v, given := r.given[name]; given {
			value, said = v, true
		}
		if said {
			r.args[name] = strings.Trim(value, `"'`)
		}
	}
}

// add refuses what the engine would fetch by itself.
func (r *reader) add(words []string, line int) error {
	const hint = "fetch it in a RUN, whose network is the guardian's"
	if !r.files {
		return r.bad(line, hint+"; there are no files beside the definition", "ADD is done by the engine itself, past the guardian")
	}
	flags, names, err := r.parts(words, line)
	if err != nil {
		return err
	}
	text := strings.Join(append(flags, names...), " ")
	if strings.Contains(text, "://") || strings.Contains(text, "$") || strings.Contains(text, "git@") {
		return r.bad(line, hint, "ADD of an address is done by the engine itself, past the guardian")
	}
	return nil
}

// parts are the flags and the names of an instruction that copies. The engine takes quotes and
// backslashes away before it looks at either, and splits flags at single bytes of letters
// beyond ASCII, so these could hide a flag or an address; a list is read as the JSON that it is.
func (r *reader) parts(words []string, line int) (flags, names []string, err error) {
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		flags, words = append(flags, words[0]), words[1:]
	}
	names = words
	if rest := strings.Join(words, " "); strings.HasPrefix(rest, "[") {
		var list []string
		if json.Unmarshal([]byte(rest), &list) == nil {
			names = list
		}
	}
	for _, w := range flags {
		if strings.ContainsFunc(w, func(c rune) bool { return c > '~' || strings.ContainsRune(`"'\\`, c) }) {
			return nil, nil, r.bad(line, "write it without quotes, backslashes and other letters", "the engine could read the flag %s in another way", w)
		}
	}
	for _, w := range names {
		if strings.ContainsAny(w, `"'\\`) {
			return nil, nil, r.bad(line, "write it without quotes and backslashes; [\"NAME\", \"NAME\"] holds names with spaces",
				"the engine could read the name %s in another way", w)
		}
	}
	return flags, names, nil
}

// copy refuses files that there are not.
func (r *reader) copy(words []string, line int) error {
	flags, _, err := r.parts(words, line)
	if err != nil {
		return err
	}
	from, named := "", false
	for _, w := range flags {
		if v, ok := strings.CutPrefix(w, "--from="); ok {
			from, named = v, true
		}
	}
	if !named && !r.files {
		return r.bad(line, "write files in a RUN; COPY --from=STAGE is what a build knows", "there are no files beside the definition")
	}
	if named && !r.stages[strings.ToLower(from)] && strings.Trim(from, "0123456789") != "" {
		return r.bad(line, "begin a stage with it: FROM "+from+" AS NAME", "COPY --from=%s is no stage of this definition", from)
	}
	return nil
}

// from reads what a stage begins with.
func (r *reader) from(words []string, began, last int) error {
	if len(words) > 0 && strings.HasPrefix(words[0], "--") {
		return r.bad(began, "leave it out: the image is for this machine", "FROM %s", words[0])
	}
	name := ""
	if len(words) > 0 {
		name = words[0]
		if r.files {
			name = r.replaced(name)
		}
	}
	if name == "" || strings.Contains(name, "$") {
		return r.bad(began, "write the image's name", "FROM must name its image outright")
	}
	under := strings.ToLower(name)
	o := Origin{Name: name, line: began, last: last, Stage: r.stages[under], bare: r.bare[under]}
	if len(words) == 3 && strings.EqualFold(words[1], "as") {
		o.as = words[2]
		r.stages[strings.ToLower(o.as)], r.bare[strings.ToLower(o.as)] = true, o.bare
	}
	r.out = append(r.out, o)
	return nil
}

// replaced is a name with the arguments that it names: $NAME, ${NAME} and ${NAME:-WORD}.
// What is none of these stays, and is refused.
func (r *reader) replaced(name string) string {
	return argument().ReplaceAllStringFunc(name, func(text string) string {
		m := argument().FindStringSubmatch(text)
		if v := r.args[cmp.Or(m[1], m[2])]; v != "" {
			return v
		}
		if m[3] != "" {
			return strings.TrimPrefix(m[3], ":-")
		}
		return text
	})
}

var argument = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(:-[^{}$]*)?\})`)
})

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
