package secret_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRevealers holds the list of everybody who sees a real value. A new one is a
// decision: say in testdata/revealers.txt what it does with it.
func TestRevealers(t *testing.T) {
	golden, err := os.ReadFile("testdata/revealers.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(golden)) {
		if where, why, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.HasPrefix(line, "#") {
			want[where] = why
		}
	}
	got := map[string]bool{}
	err = fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", name), nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			where := name
			if f, ok := decl.(*ast.FuncDecl); ok {
				where += " " + f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Reveal" {
					got[where] = true
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 {
		t.Fatal("nobody reveals anything: this test reads the wrong tree")
	}
	for _, where := range slices.Sorted(maps.Keys(got)) {
		if want[where] == "" {
			t.Errorf("%s calls Reveal and is not in testdata/revealers.txt", where)
		}
	}
	for _, where := range slices.Sorted(maps.Keys(want)) {
		if !got[where] {
			t.Errorf("testdata/revealers.txt lists %s, which no longer calls Reveal: strike it", where)
		}
	}
}
