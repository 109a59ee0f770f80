// Package tools holds docs/tools.md to what the tools of a machine do in a cloister, level by level.
//
// It promises that each cell of a level's column is what tools.txt says, that each tool which is there was
// run, and that it did as the cell says. It builds no enclosure: who knows a level runs the scripts there. The
// call is [Hold].
package tools

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// text is the table of tools, as it says itself.
//
//go:embed tools.txt
var text string

// tool is one line of docs/tools.md.
type tool struct {
	name, needs string
	levels      []string
	script      string
}

// program writes the source of a program that is made to lose memory, or to write over its end.
const program = `printf '%s\n' '#include <stdlib.h>' '#include <string.h>' 'int main(int n, char **v) {' \
	'if (n > 1 && !strcmp(v[1], "leak")) { char *volatile p = malloc(77); p[0] = 1; p = 0; }' \
	'if (n > 1 && !strcmp(v[1], "over")) { char *volatile p = malloc(4); p[4] = 1; }' 'return 0; }' > tool.c; `

func table() []tool {
	var out []tool
	for line := range strings.Lines(text) {
		if head, ok := strings.CutPrefix(line, "# "); ok {
			cells := strings.Split(strings.TrimSpace(head), " | ")
			out = append(out, tool{name: cells[0], needs: cells[1], levels: strings.Fields(cells[2])})
		} else if len(out) > 0 {
			out[len(out)-1].script += strings.ReplaceAll(line, "@program@", program)
		}
	}
	return out
}

// A Level is a column of the table.
type Level struct {
	Name string
	// Document is the table's file: where there is none, what works is held all the same.
	Document string
	// Root has the programs that are seen inside.
	Root string
	// Run has a shell run a script inside, in a folder that may be written, and gives its status and what it wrote.
	Run func(t *testing.T, script string) (status int, said string)
}

// The cells: of what works, of what does not, of what works by a word that a person adds, which the tests of
// that word hold, and of what was not run on that level yet.
const works, not, byWord, untried = "works", "does not", "by a word", "not tried"

func (t tool) on(level string) string {
	switch {
	case slices.Contains(t.levels, level):
		return works
	case slices.Contains(t.levels, level+":word"):
		return byWord
	case slices.Contains(t.levels, level+":untried"):
		return untried
	}
	return not
}

// whole says that the machine has every tool: what is lacking is an error. script/tools installs them and sets it.
const whole = "CLOISTER_TOOLS"

// Hold compares the column of a level with what tools.txt says, and runs what is there.
func Hold(t *testing.T, l Level) {
	t.Helper()
	document, err := os.ReadFile(l.Document)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this program also runs where no documents are
		t.Fatal(err)
	}
	documented, ran := column(string(document), l.Name), 0
	var missing []string
	for _, tool := range table() {
		want := tool.on(l.Name)
		if err == nil && documented[tool.name] != want {
			t.Errorf("docs/tools.md says of %s, %s: %q, and it %s", tool.name, l.Name, documented[tool.name], want)
		}
		delete(documented, tool.name)
		if want == byWord {
			continue
		}
		if name := lacking(l.Root, tool.needs); name != "" {
			missing = append(missing, tool.name)
			if os.Getenv(whole) != "" && want != untried {
				t.Errorf("%s: there is no %s in %s", tool.name, name, l.Root)
			}
			continue
		}
		ran++
		t.Run(tool.name, func(t *testing.T) {
			status, said := l.Run(t, tool.script)
			if want == untried {
				t.Logf("write down status %d: %s", status, said)
			} else if (status == 0) != (want == works) {
				t.Errorf("%q is written: status %d, %s", want, status, said)
			}
		})
	}
	t.Logf("%d tools were run; not here: %s", ran, strings.Join(missing, ", "))
	for name := range documented {
		t.Errorf("docs/tools.md names %s, which no test runs", name)
	}
}

// column is what the table says of each tool on a level.
func column(text, level string) map[string]string {
	out := map[string]string{}
	at := -1
	for _, row := range regexp.MustCompile(`(?m)^\| .* \|$`).FindAllString(text, -1) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		switch {
		case cells[0] == "tool":
			at = slices.Index(cells, level)
		case at > 0 && at < len(cells):
			out[cells[0]] = cells[at]
		}
	}
	return out
}

// lacking is the first of the programs, or of the paths, that a system does not have.
func lacking(root, needs string) string {
	for name := range strings.FieldsSeq(needs) {
		at := filepath.Join(root, "usr/bin", name)
		if filepath.IsAbs(name) {
			at = filepath.Join(root, name)
		}
		if _, err := os.Lstat(at); err != nil {
			return name
		}
	}
	return ""
}
