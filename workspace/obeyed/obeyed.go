// Package obeyed tells what programs of the host run or obey in a project.
//
// It reads the configuration of the project's own repository and that of the person whose git obeys both. The call is
// [In].
package obeyed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/protect"
)

// mostNested bounds the repositories below a project's whose configuration is read.
const mostNested = 64

// Person is whose git runs in the project. Of the zero value nothing is known but the project's repository.
type Person struct {
	Home string // where git looks for .gitconfig
	// Git gives the sources of git's configuration for a repository; nil for those in Home alone.
	Git func(hostgit.Folders) hostgit.Configuration
}

// In gives what reports of a path in a project whether programs of the host run or obey a file there:
// as [workspace.RunsByItself] does, and where the configuration of the project's own repository, or the person's, leads
// git to it, such as hooks, included files and programs. What is in that configuration is read now.
//
// Of a repository below the project's, such as a submodule, the same is asked by itself: git of the host takes what is
// relative in the person's configuration from there. Of more than [mostNested] everything is obeyed.
func In(root string, of Person) (func(rel string) bool, error) {
	own, err := in(root, of)
	if err != nil {
		return nil, err
	}
	nested, repositories := map[string]func(string) bool{}, 0
	return func(rel string) bool {
		for dir := filepath.Dir(rel); dir != "." && dir != "/"; dir = filepath.Dir(dir) {
			runs, known := nested[dir]
			if !known {
				if _, err := os.Lstat(filepath.Join(root, dir, ".git")); err != nil {
					nested[dir] = nil
					continue
				}
				runs = func(string) bool { return true }
				if repositories++; repositories <= mostNested {
					if one, err := in(filepath.Join(root, dir), of); err == nil {
						runs = one
					}
				}
				nested[dir] = runs
			}
			if runs != nil && runs(rel[len(dir)+1:]) {
				return true
			}
		}
		return own(rel)
	}, nil
}

// in is [In] of one repository.
func in(root string, of Person) (func(rel string) bool, error) {
	p, err := workspace.Find(root)
	if err != nil {
		return nil, err
	}
	if p.Git == nil {
		return workspace.RunsByItself, nil
	}
	var list protect.List
	tree := protect.New(&list, root, "", true)
	var sources hostgit.Configuration
	if of.Git != nil {
		sources = of.Git(hostgit.Folders{Common: p.Git.Common, Dir: p.Git.Dir, Tree: root})
	}
	err = tree.Configured(protect.Places{Common: p.Git.Common, Dir: p.Git.Dir, Home: of.Home, Files: sources.Files,
		Entries: sources.Entries})
	if err != nil {
		return nil, err
	}
	var led []string
	add := func(path string) {
		if rel, in := strings.CutPrefix(path, root+"/"); in {
			led = append(led, filepath.Clean(rel))
		}
	}
	for _, one := range list.Protect {
		if !one.Pin {
			add(string(one.Target))
		}
	}
	for _, one := range list.Stubs {
		add(filepath.Join(one.Root, one.Rel))
	}
	return func(rel string) bool {
		below := func(l string) bool { return realpath.Inside("/"+rel, "/"+l) }
		return workspace.RunsByItself(rel) || slices.ContainsFunc(led, below)
	}, nil
}
