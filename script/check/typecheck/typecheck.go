// Package typecheck checks the types of a whole tree for a platform on which nothing is run.
//
// It promises the errors that this platform's compiler would tell of our packages. It
// compiles nothing, and believes of other packages what they declare.
//
// Most readers want [Tree].
package typecheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"path/filepath"
	"strings"
)

// A listed package is one that go list knows, after those that it imports.
type listed struct {
	ImportPath, Dir string
	GoFiles, SFiles []string
	ImportMap       map[string]string
	Standard        bool
	Module          *struct{ Main bool }
	Error           *struct{ Err string }
}

// Packages is what Tree reads of each package: the fields of go list's -json.
const Packages = "ImportPath,Dir,GoFiles,SFiles,ImportMap,Standard,Module,Error"

// Tree checks the types of all that go list -deps gave with [Packages], as JSON, as the
// compiler of an architecture would see them: our packages whole, of the others what they
// declare. That is a tenth of the work of compiling them all.
func Tree(list, goarch string) error {
	known := imported{"unsafe": types.Unsafe}
	files := token.NewFileSet()
	var bad []error
	for d := json.NewDecoder(strings.NewReader(list)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return errors.Join(bad...)
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		if p.Error != nil {
			return errors.New(p.Error.Err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		ours := p.Module != nil && p.Module.Main
		checked, errs := known.check(files, p, goarch, ours)
		known[p.ImportPath] = checked
		if ours {
			bad = append(bad, errs...)
		}
	}
}

// imported are the packages that were checked, by their paths.
type imported map[string]*types.Package

// check checks one package, whose imports are known already.
func (m imported) check(files *token.FileSet, p listed, goarch string, ours bool) (*types.Package, []error) {
	var errs []error
	mode := parser.SkipObjectResolution
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, mode)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		parsed = append(parsed, f)
	}
	conf := types.Config{
		Importer: within{m, p.ImportMap}, IgnoreFuncBodies: !ours, Sizes: types.SizesFor("gc", goarch),
		Error: func(err error) {
			// A function of an assembly file has no body here.
			if len(p.SFiles) == 0 || !strings.Contains(err.Error(), "missing function body") {
				errs = append(errs, err)
			}
		},
	}
	checked, _ := conf.Check(p.ImportPath, files, parsed, nil) // its errors went to Error
	return checked, errs
}

// within imports for one package, whose paths may stand for others.
type within struct {
	known imported
	as    map[string]string
}

func (w within) Import(path string) (*types.Package, error) {
	if as, ok := w.as[path]; ok {
		path = as
	}
	if p := w.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed before", path)
}
