package definition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

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
		return r.bad(line, hint+"; there are no files beside the definition",
			"ADD is done by the engine itself, past the guardian")
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
			return nil, nil, r.bad(line, "write it without quotes, backslashes and other letters",
				"the engine could read the flag %s in another way", w)
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
		return r.bad(line, "write files in a RUN; COPY --from=STAGE is what a build knows",
			"there are no files beside the definition")
	}
	if named && !r.stages[strings.ToLower(from)] && strings.Trim(from, "0123456789") != "" {
		return r.bad(line, "begin a stage with it: FROM "+from+" AS NAME",
			"COPY --from=%s is no stage of this definition", from)
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
