package egress

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// The program's end of what is read is redact's alone: nothing here has the connection
// below it, or the writer of the HTTP/2 library.
func TestNothingPassesRedact(t *testing.T) {
	opaque := map[string]bool{"serveHTTP": true, "serveHTTP2": true} // a tunnel of a proxy; frames of HTTP/2, whose handler is redact's
	own := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), ".", own, 0)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, file := range packages["egress"].Files {
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, is := n.(*ast.SelectorExpr)
				if !is {
					return true
				}
				of, _ := sel.X.(*ast.Ident)
				switch name := sel.Sel.Name; {
				case name == "ResponseWriter" && of != nil && of.Name == "http":
					t.Errorf("%s has the library's own writer to the program", f.Name.Name)
				case name == "Opaque" && !opaque[f.Name.Name]:
					t.Errorf("%s takes the connection from under redact", f.Name.Name)
				case of != nil && of.Name == "redact":
					calls = append(calls, f.Name.Name+" "+name)
				}
				return true
			})
		}
	}
	for _, want := range []string{"serveHTTP Client", "intercept Client", "serveHTTP2 Handler"} {
		if !slices.Contains(calls, want) {
			t.Errorf("%s: no such call; the program's end is redact's", want)
		}
	}
}
