package imports

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// originalFolder takes what else stands in the original Cloister's folder: what its
// window was answered for all projects. What is one project's is reported, and stays.
func (d *draft) originalFolder(folder string) error {
	for _, name := range []string{"decisions/global.yaml", "approvals/global.yaml"} {
		text, err := readFile(filepath.Join(folder, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var keys struct {
			Proxy map[string]any `yaml:"proxy"`
		}
		if err := yaml.Unmarshal(text, &keys); err != nil {
			return fmt.Errorf("%s is no valid YAML", name)
		}
		from := len(d.notes)
		d.originalProxy(keys.Proxy)
		for i := range d.notes[from:] {
			d.notes[from+i].Key = name + ": " + d.notes[from+i].Key
		}
	}
	for _, pattern := range []string{"projects/*.yaml", "decisions/projects/*.yaml", "approvals/projects/*.yaml"} {
		list, err := filepath.Glob(filepath.Join(folder, filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		slices.Sort(list)
		for _, path := range list {
			name, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			d.tell(filepath.ToSlash(name), None,
				"it is one project's, and a project has another name here: put its proxy and hostexec keys there by project edit")
		}
	}
	return nil
}

// originalDefaults takes the agent; nothing was made there of the others.
func (d *draft) originalDefaults(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := "defaults." + key
		switch name := fmt.Sprint(keys[key]); {
		case key != "agent":
			d.tell(at, None, "nothing was made of it there either")
		case filepath.IsLocal(name) && !strings.ContainsAny(name, " ./\\:{}[]\n"):
			d.agent = name
			d.tell(at, Taken, "%s", name)
		default:
			d.tell(at, None, "%q is no agent", name)
		}
	}
}
