// Package main prints how the files of packages refer to each other: go run ./script/arrows
// ./guardian ./policy.
//
// An arrow is a file that uses what another file of its package declares, by Go's own types and
// as this system builds the package; each pair counts once. The files are put into the order with
// the fewest arrows that lead back up that was found; levels are the longest chain of the others.
//
// It judges nothing: docs/house.md has the figures.
//
// Most readers want measure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	for _, pkg := range os.Args[1:] {
		m, err := measure(context.Background(), pkg)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		back, levels := m.order(300)
		fmt.Printf("%s: %d files, %d arrows, %d levels, %d back\n", pkg, len(m), m.arrows(), levels, back)
	}
}

// matrix says which file uses which: matrix[a][b] where a uses what b declares.
type matrix [][]bool

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// measure finds the arrows of one package.
func measure(ctx context.Context, pkg string) (matrix, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pkg, err)
	}
	exports, own := map[string]string{}, listed{} // the package itself comes last
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("list %s: %w", pkg, err)
		}
		exports[p.ImportPath], own = p.Export, p
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range own.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(own.Dir, name), nil, 0)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	checked, err := config.Check(own.ImportPath, set, files, info)
	if err != nil {
		return nil, err
	}
	at := func(pos token.Pos) int { return slices.Index(own.GoFiles, filepath.Base(set.Position(pos).Filename)) }
	m := newMatrix(len(own.GoFiles))
	for use, object := range info.Uses {
		if _, isImport := object.(*types.PkgName); isImport || object.Pkg() != checked || !object.Pos().IsValid() {
			continue
		}
		if from, to := at(use.Pos()), at(object.Pos()); from != to {
			m[from][to] = true
		}
	}
	return m, nil
}

func newMatrix(n int) matrix {
	m := make(matrix, n)
	for i := range m {
		m[i] = make([]bool, n)
	}
	return m
}

func (m matrix) arrows() int {
	n := 0
	for i := range m {
		for j := range m {
			n += count(m[i][j])
		}
	}
	return n
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// order searches from so many beginnings for the order with the fewest arrows back, and of those
// for the shortest chain. The beginnings are the same each time.
func (m matrix) order(tries int) (back, levels int) {
	back = m.arrows() + 1
	random := rand.New(rand.NewPCG(1, 0))
	for range tries {
		o := random.Perm(len(m))
		for m.improve(o) {
		}
		if b, l := m.back(o), m.levels(o); b < back || b == back && l < levels {
			back, levels = b, l
		}
	}
	return back, levels
}

// improve moves each file to where it leads back least, and reports whether one was moved.
func (m matrix) improve(o []int) (moved bool) {
	for i, x := range o {
		gain, best, to := 0, 0, i
		for j := i - 1; j >= 0; j-- { // in front of j
			if gain += count(m[o[j]][x]) - count(m[x][o[j]]); gain < best {
				best, to = gain, j
			}
		}
		gain = 0
		for j := i + 1; j < len(o); j++ { // behind j
			if gain += count(m[x][o[j]]) - count(m[o[j]][x]); gain < best {
				best, to = gain, j
			}
		}
		if to != i {
			rest := slices.Delete(slices.Clone(o), i, i+1)
			copy(o, slices.Insert(rest, to, x))
			moved = true
		}
	}
	return moved
}

// back counts the arrows that lead to an earlier file.
func (m matrix) back(o []int) int {
	n := 0
	for i := range o {
		for _, earlier := range o[:i] {
			n += count(m[o[i]][earlier])
		}
	}
	return n
}

// levels is the longest chain of arrows that lead to later files, in files.
func (m matrix) levels(o []int) int {
	most, below := 0, make([]int, len(o))
	for i := len(o) - 1; i >= 0; i-- {
		for j := i + 1; j < len(o); j++ {
			if m[o[i]][o[j]] {
				below[i] = max(below[i], below[j])
			}
		}
		below[i]++
		most = max(most, below[i])
	}
	return most
}
