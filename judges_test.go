package house_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// judges are the packages that decide about requests of programs, or write down what
// was decided: each reads internal/reading alone. Of guardian these are files, since
// the others serve its own API, whose requests they must read.
var judges = map[string][]string{
	"policy":              nil,
	"policy/allowing":     nil,
	"policy/suggest":      nil,
	"policyset":           nil,
	"secret":              nil,
	"approval":            nil,
	"audit":               nil,
	"mcp":                 nil,
	"secret/inject":       nil,
	"guardian/mcpservice": nil,
	"guardian/sessionctx": nil,
	"guardian/bodies":     nil,
	"guardian/records":    nil,
	"guardian": {"decider.go", "edits.go", "question.go", "overrides.go", "secrets.go", "limits.go", "mcpbridge.go",
		"decisions.go", "records.go"},
	// These fill in the questions and the record: see asked.
	"egress":                   nil,
	"egress/internal/stream":   nil,
	"egress/internal/request":  nil,
	"egress/internal/http1":    nil,
	"egress/internal/http2":    nil,
	"egress/internal/sshproxy": nil,
	"egress/internal/postgres": nil,
	"egress/internal/dns":      nil,
}

// raw are the types that hold a request as it was sent, with the fields that a judge
// may not take of them; nil is every field.
var raw = map[string][]string{
	"net/http.Request":                       nil,
	module + "/egress/internal/wire.Request": nil,
	// Its path is the reading's spelling, and its query and host go up as they stand there.
	module + "/egress/verdict.Message": {"Method", "Header"},
}

// takesRaw are the functions of judges that take a field of the raw request all the
// same, with the reason.
var takesRaw = map[string]string{
	"mcp.ServeHTTP":               "serves a declared server that is a program: obeys what it reads, behind the judges",
	"mcp.post":                    "serves a declared server that is a program: obeys what it reads, behind the judges",
	"guardian/mcpservice.up":      "takes a field away from what is sent",
	"guardian/mcpservice.down":    "reads the fields of an answer",
	"guardian.rewrite":            "writes the fields that rules say",
	"secret/inject.request":       "takes fields away from what is sent",
	"secret/inject.response":      "reads the fields of an answer",
	"secret/inject.fields":        "writes secrets into every field, and decides nothing by their names but the binding's",
	"secret/inject.body":          "searches the body in the codings that are sent up, and refuses those that it cannot read",
	"secret/inject.read":          "signs the bytes that are sent, so it reads those",
	"secret/inject.unsignedField": "signs the bytes that are sent, so it reads those",
	"guardian/records.QueryOf":    "reads a request to the guardian's own API: what of the record a person wants to see",
	"secret/inject.fieldsOf":      "signs the bytes that are sent, so it reads those",
	"secret/inject.payload":       "signs the bytes that are sent, so it reads those",
	"secret/inject.sign":          "signs the bytes that are sent, so it reads those",
}

// asked are the types that carry a request to a judge, or to the record. Package egress
// makes the reading of the raw request, and gives these the reading's fields.
var asked = []string{module + "/egress/verdict.Query", module + "/egress/verdict.Flow"}

// TestJudgesReadTheReadingAlone holds that a judge takes no field of the raw request:
// two judges that read one request in their own way can be played against each other
// (a denied tool ran by a method override that policy had judged and the route had not).
func TestJudgesReadTheReadingAlone(t *testing.T) {
	e := exports(t, slices.Sorted(maps.Keys(judges))...)
	used := map[string]bool{}
	for dir, names := range judges {
		for _, hit := range e.check(t, dir, names) {
			if used[hit.in] = true; takesRaw[hit.in] == "" {
				t.Errorf("%s: %s takes %s of the raw request: a judge reads internal/reading alone",
					hit.at, hit.in, hit.field)
			}
		}
	}
	for in, why := range takesRaw {
		if !used[in] || why == "" {
			t.Errorf("takesRaw: %s takes no field of a raw request, or has no reason", in)
		}
	}
}

func TestARawFieldIsFound(t *testing.T) {
	const source = `package sample

import (
	"net/http"

	"cloister/egress/verdict"
)

type desk struct{ *http.Request }

func method(r *http.Request) bool { return r.Method == "GET" }
func path(r *http.Request) string { return r.URL.Path }
func embedded(d desk) string      { return d.Host }
func header(m *verdict.Message) []string { return m.Header.Values("Content-Type") }
func value(r http.Request) any    { h := r.Header; return h }
func asks(q verdict.Query) string  { return q.HTTP.Method }
func status(m *verdict.Message) int { return m.Status }
`
	file := filepath.Join(t.TempDir(), "sample.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	e := exports(t, "egress")
	var got []string
	for _, hit := range e.find(t, "sample", []string{file}, nil) {
		got = append(got, hit.in+" "+hit.field)
	}
	want := []string{"sample.method Method", "sample.path URL", "sample.embedded Host", "sample.header Header", "sample.value Header"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	const fills = `package egress

import (
	"net/http"

	"cloister/egress/verdict"
)

type Query = verdict.Query
type Flow = verdict.Flow

func ask(r *http.Request) Query   { return Query{Method: r.Method} }
func record(r *http.Request) Flow { var f Flow; f.Method = r.Method; return f }
func sent(r *http.Request) string { return r.Method }
func plain(m string) Query        { return Query{Method: m} }
`
	if err := os.WriteFile(file, []byte(fills), 0o600); err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, hit := range e.find(t, "egress", []string{file}, nil) {
		got = append(got, hit.in+" "+hit.field)
	}
	if want := []string{"egress.ask Method", "egress.record Method"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A hit is a field of a raw request that some function takes.
type hit struct {
	at        token.Position
	in, field string
}

// exported is the compiled form of packages, by import path.
type exported struct {
	files map[string]string
	dirs  map[string][]string // the Go files of our own, by folder
}

func exports(t *testing.T, dirs ...string) *exported {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles,Standard"}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, errs.String())
	}
	e := &exported{map[string]string{}, map[string][]string{}}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
			Standard                bool
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		e.files[p.ImportPath] = p.Export
		if dir, ours := strings.CutPrefix(p.ImportPath, module+"/"); ours {
			for _, name := range p.GoFiles {
				e.dirs[dir] = append(e.dirs[dir], filepath.Join(p.Dir, name))
			}
		}
	}
	return e
}

// check looks through the files of a folder; names are those that judge, nil for all.
func (e *exported) check(t *testing.T, dir string, names []string) []hit {
	t.Helper()
	files := e.dirs[dir]
	if len(files) == 0 {
		t.Errorf("judges: %s has no files", dir)
	}
	for _, name := range names {
		if !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == name }) {
			t.Errorf("judges: %s has no file %s", dir, name)
		}
	}
	return e.find(t, dir, files, names)
}

func (e *exported) find(t *testing.T, dir string, files, names []string) []hit {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if e.files[path] == "" {
			return nil, fmt.Errorf("%s was not compiled", path)
		}
		return os.Open(e.files[path])
	})}
	if _, err := config.Check(module+"/"+dir, fset, parsed, info); err != nil {
		t.Fatal(err)
	}
	s := &search{fset: fset, info: info, dir: dir}
	for i, f := range parsed {
		if names != nil && !slices.Contains(names, filepath.Base(files[i])) {
			continue
		}
		for _, d := range f.Decls {
			if s.in = dir; isFunc(d) {
				s.in += "." + d.(*ast.FuncDecl).Name.Name
			}
			s.walk(d)
		}
	}
	return s.hits
}

func isFunc(d ast.Decl) bool {
	_, ok := d.(*ast.FuncDecl)
	return ok
}

// A search goes through one package's files.
type search struct {
	fset    *token.FileSet
	info    *types.Info
	dir, in string
	hits    []hit
}

// walk finds every raw field in a judge; in egress, which makes the reading, those that
// go into a question or the record.
func (s *search) walk(n ast.Node) {
	if s.dir != "egress" && !strings.HasPrefix(s.dir, "egress/") {
		s.fields(n)
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if slices.Contains(asked, typeName(s.info.Types[n].Type)) {
				s.fields(n)
				return false
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				sel, ok := left.(*ast.SelectorExpr)
				if !ok || len(n.Rhs) != len(n.Lhs) || !slices.Contains(asked, typeName(s.info.Types[sel.X].Type)) {
					continue
				}
				s.fields(n.Rhs[i])
			}
		}
		return true
	})
}

func (s *search) fields(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		chosen := s.info.Selections[sel]
		if chosen == nil || chosen.Kind() != types.FieldVal {
			return true
		}
		// The struct that holds the field, behind those that are embedded.
		owner := chosen.Recv()
		for _, i := range chosen.Index()[:len(chosen.Index())-1] {
			owner = structOf(owner).Field(i).Type()
		}
		fields, is := raw[typeName(owner)]
		if is && (fields == nil || slices.Contains(fields, sel.Sel.Name)) {
			s.hits = append(s.hits, hit{s.fset.Position(sel.Pos()), s.in, sel.Sel.Name})
		}
		return true
	})
}

func structOf(t types.Type) *types.Struct {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return t.Underlying().(*types.Struct) // what has a field is one
}

func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return ""
	}
	return named.Obj().Pkg().Path() + "." + named.Obj().Name()
}
