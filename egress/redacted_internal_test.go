package egress

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The program's end of what is read is redact's alone: nothing here has the connection
// below it, or the writer of the HTTP/2 library.
func TestNothingPassesRedact(t *testing.T) {
	// A tunnel of a proxy; frames of HTTP/2, whose handler is redact's.
	opaque := map[string]bool{"http1 ServeAll": true, "http2 Serve": true}
	own := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	var parsed []*ast.File
	dirs, err := filepath.Glob("internal/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(dirs, ".") {
		if filepath.Base(dir) == "redact" {
			continue
		}
		packages, err := parser.ParseDir(token.NewFileSet(), dir, own, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packages {
			parsed = append(parsed, slices.Collect(maps.Values(p.Files))...)
		}
	}
	var calls []string
	for _, file := range parsed {
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			in := file.Name.Name + " " + f.Name.Name
			ast.Inspect(f, func(n ast.Node) bool {
				sel, is := n.(*ast.SelectorExpr)
				if !is {
					return true
				}
				of, _ := sel.X.(*ast.Ident)
				switch name := sel.Sel.Name; {
				case name == "ResponseWriter" && of != nil && of.Name == "http":
					t.Errorf("%s has the library's own writer to the program", in)
				case name == "Opaque" && !opaque[in]:
					t.Errorf("%s takes the connection from under redact", in)
				case of != nil && of.Name == "redact":
					calls = append(calls, in+" "+name)
				}
				return true
			})
		}
	}
	for _, want := range []string{"http1 ServeAll Client", "egress intercept Client", "http2 Serve Handler"} {
		if !slices.Contains(calls, want) {
			t.Errorf("%s: no such call; the program's end is redact's", want)
		}
	}
}
