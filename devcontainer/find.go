package devcontainer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ownFolder is the one that is looked at first: a devcontainer for cloisters alone.
const ownFolder = ".devcontainer/cloister"

// places are where a devcontainer lies when none is named, in order.
var places = []string{ownFolder + "/devcontainer.json", ".devcontainer/devcontainer.json", ".devcontainer.json"}

// NotFound says that there is no devcontainer.
type NotFound struct{ What string }

func (e *NotFound) Error() string { return "no devcontainer: " + e.What }

// Several says that a project has several, of which none is the first.
type Several struct{ Names []string }

func (e *Several) Error() string {
	return "the project has several devcontainers: " + strings.Join(e.Names, ", ")
}

// Hints are the words of what to do.
func (e *Several) Hints() []string {
	var out []string
	for _, n := range e.Names {
		out = append(out, "name one: --devcontainer="+n)
	}
	return out
}

// Find is the devcontainer.json of a project, relative to its top. A path may be the
// file, its folder, or the name of one of several.
func Find(root *os.Root, typed string) (string, error) {
	if typed == "" {
		return discover(root)
	}
	at := path.Clean(typed)
	if path.IsAbs(at) || at == ".." || strings.HasPrefix(at, "../") {
		return "", &NotFound{fmt.Sprintf("%s is outside the project", typed)}
	}
	tried := []string{at, at + "/devcontainer.json", at + "/.devcontainer/devcontainer.json", at + "/.devcontainer.json"}
	if !strings.Contains(at, "/") {
		tried = append(tried, ".devcontainer/"+at+"/devcontainer.json")
	}
	for _, name := range tried {
		if strings.HasSuffix(name, ".json") && isFile(root, name) {
			return name, nil
		}
	}
	return "", &NotFound{fmt.Sprintf("%s is neither a devcontainer.json nor a folder with one", typed)}
}

func discover(root *os.Root) (string, error) {
	for _, name := range places {
		if isFile(root, name) {
			return name, nil
		}
	}
	named, err := Named(root)
	switch {
	case err != nil:
		return "", err
	case len(named) == 1:
		return named[0], nil
	case len(named) > 1:
		return "", &Several{named}
	}
	return "", &NotFound{"neither .devcontainer/devcontainer.json nor .devcontainer.json is there"}
}

// Named are the devcontainers of a project that have a folder of their own.
func Named(root *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".devcontainer")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for devcontainers: %w", err)
	}
	var out []string
	for _, e := range entries {
		if name := ".devcontainer/" + e.Name() + "/devcontainer.json"; isFile(root, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func isFile(root *os.Root, name string) bool {
	fi, err := root.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}
