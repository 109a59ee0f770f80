package sandboxtest

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloister/sandbox"
)

// toolsText is the table of tools, as it says itself.
//
//go:embed tools.txt
var toolsText string

// tool is one line of docs/tools.md.
type tool struct {
	name, needs string
	levels      []string
	script      string
}

// program writes the source of a program that is told to lose memory, or to write over its end.
const program = `printf '%s\n' '#include <stdlib.h>' '#include <string.h>' 'int main(int n, char **v) {' \
	'if (n > 1 && !strcmp(v[1], "leak")) { char *volatile p = malloc(77); p[0] = 1; p = 0; }' \
	'if (n > 1 && !strcmp(v[1], "over")) { char *volatile p = malloc(4); p[4] = 1; }' 'return 0; }' > tool.c; `

func tools() []tool {
	var out []tool
	for line := range strings.Lines(toolsText) {
		if head, ok := strings.CutPrefix(line, "# "); ok {
			cells := strings.Split(strings.TrimSpace(head), " | ")
			out = append(out, tool{name: cells[0], needs: cells[1], levels: strings.Fields(cells[2])})
		} else if len(out) > 0 {
			out[len(out)-1].script += strings.ReplaceAll(line, "@program@", program)
		}
	}
	return out
}

// Tools holds the column of a level in docs/tools.md to what the tools of this machine do on
// that level.
func Tools(t *testing.T, level, document string, driver func() sandbox.Driver) {
	text, err := os.ReadFile(document)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // this program also runs where no documents are
		t.Fatal(err)
	}
	documented := column(string(text), level)
	for _, tool := range tools() {
		works := slices.Contains(tool.levels, level)
		if word := map[bool]string{true: "works", false: "does not"}[works]; err == nil && documented[tool.name] != word {
			t.Errorf("docs/tools.md says of %s, %s: %q, and it %s", tool.name, level, documented[tool.name], word)
		}
		delete(documented, tool.name)
		if missing := lacking(tool.needs); missing != "" {
			t.Logf("%s: this machine has no %s", tool.name, missing)
			continue
		}
		h := New(t, driver())
		out := h.Run(t, Options{}, "sh", "-c", tool.script)
		if does := out.Status.ExitCode() == 0; out.Err != nil || does != works {
			t.Errorf("%s works: %t, %+v", tool.name, does, out)
		}
	}
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

// lacking is the first of the programs that is not in the system's folder.
func lacking(programs string) string {
	for name := range strings.FieldsSeq(programs) {
		if _, err := os.Stat("/usr/bin/" + name); err != nil {
			return name
		}
	}
	return ""
}
