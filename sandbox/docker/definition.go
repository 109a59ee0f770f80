package docker

import (
	"bufio"
	"bytes"
	_ "embed" // the base image's definition
	"fmt"
	"slices"
	"strings"
)

// baseDefinition makes the base image.
//
//go:embed base/Dockerfile
var baseDefinition []byte

// BaseDefinition is the text by which the base image is built.
func BaseDefinition() []byte { return bytes.Clone(baseDefinition) }

// BadDefinition says where a definition asks for what no build does.
type BadDefinition struct {
	File string
	Line int
	Msg  string
	Hint string
}

func (e *BadDefinition) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg) }

// Hints are the words of what to do.
func (e *BadDefinition) Hints() []string { return []string{e.Hint} }

// origin is what a stage of a definition begins with, and the lines that say so.
type origin struct {
	name       string
	line, last int
	// stage: it is one of the definition's own. bare: nothing lies under it.
	stage, bare bool
}

// origins reads a definition (Dockerfile reference) as far as it matters to who
// builds it: the images that it begins with, which are fetched before a step runs.
// What the engine itself would fetch, past the guardian, is refused.
func origins(file string, text []byte) ([]origin, error) {
	var out []origin
	stages, bare := map[string]bool{"scratch": true}, map[string]bool{"scratch": true}
	escape := byte('\\')
	bad := func(line int, hint, format string, args ...any) error {
		return &BadDefinition{file, line, fmt.Sprintf(format, args...), hint}
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	whole, began, directives := "", 0, true
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if key, value, ok := strings.Cut(strings.TrimPrefix(line, "#"), "="); directives && strings.HasPrefix(line, "#") && ok {
			switch strings.ToLower(strings.TrimSpace(key)) {
			case "escape":
				if strings.TrimSpace(value) == "`" {
					escape = '`'
				}
			case "syntax":
				return nil, bad(n, "leave the line out", "a build follows no other syntax than its own: %s", strings.TrimSpace(value))
			}
			continue
		}
		directives = directives && strings.HasPrefix(line, "#")
		if line == "" || strings.HasPrefix(line, "#") {
			continue // also in the midst of an instruction
		}
		if whole == "" {
			began = n
		}
		if line[len(line)-1] == escape {
			whole += line[:len(line)-1] + " "
			continue
		}
		words := strings.Fields(whole + line)
		whole = ""
		switch strings.ToUpper(words[0]) {
		case "ADD":
			return nil, bad(began, "fetch it in a RUN, whose network is the guardian's; there are no files beside the definition", "ADD is done by the engine itself, past the guardian")
		case "COPY":
			if !strings.HasPrefix(strings.Join(words[1:min(2, len(words))], ""), "--from=") {
				return nil, bad(began, "write files in a RUN; COPY --from=STAGE is what a build knows", "there are no files beside the definition")
			}
			from := strings.TrimPrefix(words[1], "--from=")
			if !stages[strings.ToLower(from)] && strings.Trim(from, "0123456789") != "" {
				return nil, bad(began, "begin a stage with it: FROM "+from+" AS NAME", "COPY --from=%s is no stage of this definition", from)
			}
		case "ONBUILD":
			return nil, bad(began, "leave it out", "ONBUILD says what other builds do")
		case "FROM":
			words = words[1:]
			for len(words) > 0 && strings.HasPrefix(words[0], "--") {
				return nil, bad(began, "leave it out: the image is for this machine", "FROM %s", words[0])
			}
			if len(words) == 0 || strings.Contains(words[0], "$") {
				return nil, bad(began, "write the image's name", "FROM must name its image outright")
			}
			under := strings.ToLower(words[0])
			out = append(out, origin{words[0], began, n, stages[under], bare[under]})
			if len(words) == 3 && strings.EqualFold(words[1], "as") {
				stages[strings.ToLower(words[2])], bare[strings.ToLower(words[2])] = true, bare[under]
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(out) == 0 {
		return nil, bad(1, "such as FROM debian:trixie-slim", "it begins with no image")
	}
	return out, nil
}

// begun is a definition that begins with another image than it says.
func begun(text []byte, o origin, name string) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	at := lines[o.line-1]
	from := bytes.IndexAny(bytes.TrimLeft(at, " \t\ufeff"), " \t") + len(at) - len(bytes.TrimLeft(at, " \t\ufeff"))
	lines[o.line-1] = append(bytes.Clone(at[:from]), bytes.Replace(at[from:], []byte(o.name), []byte(name), 1)...)
	return bytes.Join(lines, nil)
}

// trusted is where the steps of a build find the authorities that they trust.
const trusted = "/etc/ssl/cloister-build.crt"

// authoritiesFile is their name beside the definition.
const authoritiesFile = "authorities.crt"

// trusting is a definition whose steps trust the authorities of this host: behind
// a company's, or where the guardian opens a connection, those of the image are not
// enough. The variables are the steps' alone; the image has the file.
func trusting(text []byte, from []origin, variables []string) []byte {
	args := "ARG " + strings.Join(variables, "="+trusted+" ") + "=" + trusted
	var out bytes.Buffer
	for n, line := range bytes.SplitAfter(text, []byte("\n")) {
		out.Write(line)
		at := slices.IndexFunc(from, func(o origin) bool { return o.last == n+1 })
		if at < 0 || from[at].bare {
			continue
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			out.WriteByte('\n')
		}
		if !from[at].stage {
			out.WriteString("COPY " + authoritiesFile + " " + trusted + "\n")
		}
		out.WriteString(args + "\n")
	}
	return out.Bytes()
}
