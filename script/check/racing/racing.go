// Package racing finds which test programs could have a data race.
//
// It promises to name each program that does two things at once in code of ours: one that starts
// a goroutine, or has the standard library start one that calls our code. A package with unsafe
// code is named too, because the race detector looks at its pointers as well. It compiles nothing.
//
// Most readers want [Programs].
package racing

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Packages is what Programs reads of each package: the fields of go list's -json.
const Packages = "ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"

type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// starters are calls that run a function of ours beside their caller, whatever they belong to.
var starters = []string{"Go", "AfterFunc", "Parallel", "RunParallel", "Serve", "ServeTLS", "ListenAndServe"}

// libraries start goroutines that call code of ours: handlers, writers.
var libraries = []string{"net/http/httptest", "os/exec"}

// Programs gives, of all that go list gave with [Packages] as JSON, the packages whose test program
// could have a race: by their own files, their tests' and those of the listed packages below them.
func Programs(list string) (map[string]bool, error) {
	all := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[p.ImportPath] = p
	}
	w := walk{all: all, product: map[string]bool{}}
	out := map[string]bool{}
	for path, p := range all {
		could, unsafe, err := starts(p.Dir, slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles))
		if err != nil {
			return nil, err
		}
		if !could && !unsafe {
			if could, err = w.below(slices.Concat(p.Imports, p.TestImports, p.XTestImports)); err != nil {
				return nil, err
			}
		}
		if could || unsafe {
			out[path] = true
		}
	}
	return out, nil
}

// walk knows of each package whether it, or one below it, starts something.
type walk struct {
	all     map[string]listed
	product map[string]bool
}

func (w walk) below(imports []string) (bool, error) {
	for _, path := range imports {
		p, ours := w.all[path]
		if !ours {
			continue
		}
		known, ok := w.product[path]
		if !ok {
			var err error
			if known, _, err = starts(p.Dir, p.GoFiles); err == nil && !known {
				known, err = w.below(p.Imports)
			}
			if err != nil {
				return false, err
			}
			w.product[path] = known
		}
		if known {
			return true, nil
		}
	}
	return false, nil
}

// starts reports whether files start a goroutine, and whether they import unsafe.
func starts(dir string, names []string) (could, unsafe bool, err error) {
	files := token.NewFileSet()
	for _, name := range names {
		f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, false, err
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			could = could || err != nil || slices.Contains(libraries, path)
			unsafe = unsafe || path == "unsafe"
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				could = true
			case *ast.SelectorExpr:
				could = could || slices.Contains(starters, n.Sel.Name)
			}
			return !could
		})
	}
	return could, unsafe, nil
}
