// Package obeyed tells what programs of the host run or obey in a project.
//
// It reads the configuration of the project's own repository and that of the person whose git obeys both. The call is
// [In].
package obeyed

import (
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/protect"
)

// Person is whose git runs in the project. Of the zero value nothing is known but the project's repository.
type Person struct {
	Home string // where git looks for .gitconfig
	// Git gives the sources of git's configuration for a repository; nil for those in Home alone.
	Git func(hostgit.Folders) hostgit.Configuration
}

// In gives what reports of a path in a project whether programs of the host run or obey a file there:
// as [workspace.RunsByItself] does, and where the configuration of the project's own repository, or the person's, leads
// git to it, such as hooks, included files and programs. What is in that configuration is read now.
func In(root string, of Person) (func(rel string) bool, error) {
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
