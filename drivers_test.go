package house_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// registration is the one file that lists the drivers; config/levels.txt is written from it.
const registration = "cmd/cloister/driver_linux.go"

// besideDrivers are folders whose files may speak of drivers: they are theirs, or try each.
var besideDrivers = []string{"sandbox/", "escape/", "bench/", "script/", "cmd/cloister-escape/"}

// namesDriver are files outside that have the name of one driver as a word, each with the reason.
// Native, user and docker are also words of other things, and are not looked for.
var namesDriver = map[string]string{
	registration:                        "registers it",
	"cmd/cloister/setup/setup.go":       "installs gvisor's kernel by that name",
	"cmd/cloister/machines/machines.go": "the commands of microvm are its own folder",
	"cmd/cloister/pods/pods.go":         "the commands of kubernetes are its own folder",
}

// TestDriverIsOneRegistration: another driver is its folder, a line of one file and a row in docs.
// No other file lists the drivers, and none decides anything by the name of one: what a driver may
// also be is an interface of sandbox/abilities.go.
func TestDriverIsOneRegistration(t *testing.T) {
	text, err := os.ReadFile("config/levels.txt")
	if err != nil {
		t.Fatal(err)
	}
	levels := strings.Fields(string(text))
	if len(levels) < 6 {
		t.Fatalf("there are %d drivers: %v", len(levels), levels)
	}
	word := regexp.MustCompile(`\b(` + strings.Join(levels, "|") + `)\b`)
	found := map[string]bool{}
	for _, f := range files(t) {
		if f.test || slices.ContainsFunc(besideDrivers, func(dir string) bool { return strings.HasPrefix(f.name, dir) }) {
			continue
		}
		alone := map[string]bool{}
		for _, said := range literals(t, f.name) {
			if slices.Contains(levels, said) {
				alone[said] = true
			}
			if list := distinct(word.FindAllString(said, -1)); list > 2 {
				t.Errorf("%s: %q lists drivers: config.Levels does", f.name, said)
			}
		}
		if len(alone) > 2 && f.name != registration {
			t.Errorf("%s: lists %d drivers: config.Levels does", f.name, len(alone))
		}
		found[f.name] = len(alone) > 2
		for _, level := range levels[3:] {
			if alone[level] && namesDriver[f.name] == "" {
				t.Errorf("%s: has the word %q: make what it decides an interface of sandbox/abilities.go", f.name, level)
			}
		}
	}
	if !found[registration] {
		t.Errorf("%s lists no drivers: this test looks in the wrong place", registration)
	}
}

// literals are the strings of a file.
func literals(t *testing.T, name string) (out []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash(name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, text)
			}
		}
		return true
	})
	return out
}

func distinct(list []string) int {
	slices.Sort(list)
	return len(slices.Compact(list))
}
