package projects

import (
	"errors"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"

	"cloister/api"
	"cloister/config"
	"cloister/host/taint"
	"cloister/internal/hint"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/workspace"
	"cloister/workspace/protect"
)

// outerProject is a known project whose folder holds another project.
type outerProject struct {
	known Known
	root  string // the working tree around
	under string // where the inner project lies in it
}

// outerOf finds the known projects around a project, the nearest first: around its
// working tree and, for a worktree that lies elsewhere, around its repository.
func outerOf(d xdg.Dirs, places *taint.Register, p workspace.Project) ([]outerProject, error) {
	var out []outerProject
	for _, inner := range slices.Compact([]string{string(p.Root), string(p.Main)}) {
		for at := inner; at != filepath.Dir(at); {
			at = filepath.Dir(at)
			if slices.ContainsFunc(out, func(o outerProject) bool { return o.root == at }) {
				continue
			}
			main := at
			if pin, ok := places.Pinned(at); ok && pin.Pin.Main != "" {
				main = pin.Pin.Main
			}
			k, err := read(fileOf(d, main))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, hint.With(err, "it is a project around "+inner+", whose rules hold there too; start in it once: -C "+at)
			}
			under, err := filepath.Rel(at, inner)
			if err != nil {
				return nil, err
			}
			out = append(out, outerProject{k, at, under})
		}
	}
	return out, nil
}

// outerFiles are what the projects around a project take away from sessions in it: the
// files for the guardian, and what they say of files. They give nothing.
func (k Known) outerFiles(d xdg.Dirs, places *taint.Register, p workspace.Project,
	cfg *config.Config) ([]ownFile, error) {
	around, err := outerOf(d, places, p)
	if err != nil {
		return nil, err
	}
	var out []ownFile
	for _, o := range around {
		files, err := o.known.files(d, workspace.Project{Root: sandbox.HostPath(o.root),
			Main: sandbox.HostPath(o.known.Root)}, cfg)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			f.project = f.project.Narrowed()
			f.outer = &protect.Outer{Root: o.root, Under: o.under, Hide: f.project.Filesystem.Hide,
				Protect: f.project.Filesystem.Protect}
			f.project.Filesystem, f.project.Root, f.project.Version = config.Filesystem{}, "", 0
			if o.known.Root == k.Root {
				// A worktree inside its own repository: the rest holds already.
				f.project = &config.Project{}
			}
			f.Narrowed = true
			if len(f.outer.Hide)+len(f.outer.Protect) > 0 || !reflect.DeepEqual(*f.project, config.Project{}) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// forGuardian are the files that the guardian keeps.
func forGuardian(files []ownFile) []api.ProjectFile {
	var out []api.ProjectFile
	for _, f := range files {
		if f.project.ForGuardian() {
			out = append(out, f.ProjectFile)
		}
	}
	return out
}
