package devcontainer

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"cloister/devcontainer/demand"
	"cloister/devcontainer/features"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/metadata"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// mostFeatures bounds what a devcontainer installs, with all that it depends on.
const mostFeatures = 64

// mostContext bounds the files beside a Dockerfile.
const (
	mostContext      = 1 << 30
	mostContextFiles = 200_000
)

// Recipe is what an image is built by.
type Recipe struct {
	Name      string // of the definition, for errors
	Text      []byte
	Arguments map[string]string
	Target    string
	// Files writes the files beside the definition.
	Files func(w *tar.Writer) error
}

// Recipe is the recipe of a devcontainer's Dockerfile. Hidden reports whether a path below
// the project's top looks empty inside, and so to the build; own, whether a name at the top
// of the files is the build's own.
func (d *Devcontainer) Recipe(hidden func(rel string, dir bool) bool, own func(name string) bool) Recipe {
	build, _ := d.Config["build"].(map[string]any)
	r := Recipe{Name: d.Dockerfile, Text: d.files.all[path.Clean(d.Dockerfile)].text, Arguments: map[string]string{}}
	args, _ := build["args"].(map[string]any)
	for name, v := range args {
		r.Arguments[name] = fmt.Sprint(v)
	}
	r.Target, _ = build["target"].(string)
	c := context{hidden: hidden, own: own}
	r.Files = func(w *tar.Writer) error {
		ignore := path.Join(d.Context, ".dockerignore")
		var err error
		if c.ignored, err = ignoring(d.files.all[ignore].text); err != nil {
			return fmt.Errorf("%s: %w", ignore, err)
		}
		root, err := os.OpenRoot(d.project)
		if err == nil {
			c.w = w
			err = errors.Join(c.enter(root, "", strings.Split(d.Context, "/")), root.Close())
		}
		if err != nil {
			return fmt.Errorf("the files beside %s: %w", d.Dockerfile, err)
		}
		return nil
	}
	return r
}

// A context writes the folder that a Dockerfile copies from, less what .dockerignore names
// and what is hidden. Each folder is entered by its parent's descriptor, and no link is
// followed: a session that writes here at the same time leads it nowhere else.
type context struct {
	w       *tar.Writer
	hidden  func(rel string, dir bool) bool
	own     func(name string) bool
	ignored func(rel string) (bool, error)
	size    int64
	count   int
}

// enter goes down to the folder that is copied from, and writes it.
func (c *context) enter(at *os.Root, rel string, down []string) error {
	if len(down) == 0 || down[0] == "." {
		return c.folder(at, rel, "")
	}
	return c.within(at, down[0], func(sub *os.Root) error { return c.enter(sub, path.Join(rel, down[0]), down[1:]) })
}

// within opens a folder that is no link.
func (c *context) within(at *os.Root, name string, do func(*os.Root) error) error {
	sub, err := folderIn(at, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	return do(sub)
}

// folder writes a folder: rel is its place in the project, to in the build.
func (c *context) folder(at *os.Root, rel, to string) error {
	entries, err := fs.ReadDir(at.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, as := path.Join(rel, e.Name()), path.Join(to, e.Name())
		if c.hidden(name, e.IsDir()) || as == ".git" || to == "" && c.own(as) {
			continue
		}
		if c.count++; c.count > mostContextFiles {
			return fmt.Errorf("more than %d; a .dockerignore leaves out what the build does not need", mostContextFiles)
		}
		if err := c.entry(at, e, name, as); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (c *context) entry(at *os.Root, e fs.DirEntry, name, as string) error {
	info, err := at.Lstat(e.Name())
	if err != nil {
		return err
	}
	ignored, err := c.ignored(as)
	if err != nil {
		return fmt.Errorf(".dockerignore: %w", err)
	}
	h := &tar.Header{Name: as, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}
	switch {
	case info.IsDir():
		if !ignored {
			h.Name, h.Typeflag = as+"/", tar.TypeDir
			if err := c.w.WriteHeader(h); err != nil {
				return err
			}
		}
		// What is in an ignored folder may be taken back by a later pattern.
		return c.within(at, e.Name(), func(sub *os.Root) error { return c.folder(sub, name, as) })
	case ignored:
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = at.Readlink(e.Name()); err != nil {
			return err
		}
		return c.w.WriteHeader(h)
	case info.Mode().IsRegular():
		return c.file(at, e.Name(), info, h)
	}
	return nil
}

// file writes one file, of the size that it has when it is opened.
func (c *context) file(at *os.Root, name string, info fs.FileInfo, h *tar.Header) error {
	f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, now) {
		return fmt.Errorf("%s changed while it was read", h.Name)
	}
	h.Size = now.Size()
	if c.size += h.Size; c.size > mostContext {
		return fmt.Errorf("more than %d MiB; a .dockerignore leaves out what the build does not need", mostContext>>20)
	}
	if err := c.w.WriteHeader(h); err != nil {
		return err
	}
	if n, err := io.CopyN(c.w, f, h.Size); err != nil {
		return fmt.Errorf("read %s, of which there are %d bytes: %w", h.Name, n, err)
	}
	return nil
}

// ignoring reads a .dockerignore as the engine's own client does.
func ignoring(text []byte) (func(rel string) (bool, error), error) {
	list, err := ignorefile.ReadAll(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	m, err := patternmatcher.New(list)
	if err != nil {
		return nil, err
	}
	return m.MatchesOrParentMatches, nil
}

// Features are those of a devcontainer with all that they depend on, in the order in
// which they are installed, and what of each stays after it was judged.
func (d *Devcontainer) Features(o Options) ([]features.Feature, []metadata.Entry, error) {
	wanted, _ := d.Config["features"].(map[string]any)
	var list []features.Feature
	entries := map[string]metadata.Entry{}
	for queue := slices.Sorted(maps.Keys(wanted)); len(queue) > 0; queue = queue[1:] {
		id := queue[0]
		if _, known := entries[id]; known {
			continue
		}
		if len(list) == mostFeatures {
			return nil, nil, fmt.Errorf("the features of %s need more than %d", d.File, mostFeatures)
		}
		f, err := d.feature(id)
		if err != nil {
			return nil, nil, err
		}
		f.Options = wanted[id]
		name := id + "/devcontainer-feature.json"
		text, ok := f.Find("devcontainer-feature.json")
		if !ok {
			return nil, nil, fmt.Errorf("feature %s has no devcontainer-feature.json", id)
		}
		v, err := jsonc.Parse(name, text)
		if err != nil {
			return nil, nil, err
		}
		res, err := demand.Judge(d.input(o, demand.Feature, name, v))
		if err != nil {
			return nil, nil, err
		}
		f.Declared, _ = v.Any().(map[string]any)
		f.Env = map[string]string{}
		env, _ := res.Config["containerEnv"].(map[string]any)
		for name, value := range env {
			f.Env[name], _ = value.(string)
		}
		entries[id] = metadata.OfFeature(id, res.Config)
		list = append(list, f)
		for need, options := range f.Needs() {
			if why := demand.FeatureID(need); why != "" {
				return nil, nil, fmt.Errorf("feature %s depends on %s: %s", id, need, why)
			}
			if _, named := wanted[need]; !named {
				wanted = maps.Clone(wanted)
				wanted[need] = options
			}
			queue = append(queue, need)
		}
	}
	var override []string
	first, _ := d.Config["overrideFeatureInstallOrder"].([]any)
	for _, id := range first {
		override = append(override, fmt.Sprint(id))
	}
	list, err := features.Order(list, override)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", d.File, err)
	}
	var ordered []metadata.Entry
	for _, f := range list {
		ordered = append(ordered, entries[f.ID])
	}
	return list, ordered, nil
}

// feature is one with its files, of the devcontainer's own folder.
func (d *Devcontainer) feature(id string) (features.Feature, error) {
	f := features.Feature{ID: id}
	at, err := relative(d.dir(), id)
	if err != nil {
		return f, fmt.Errorf("feature %s: %w", id, err)
	}
	for name, one := range d.files.all {
		if rel, ok := strings.CutPrefix(name, at+"/"); ok && one.link == "" {
			f.Files = append(f.Files, features.File{Name: rel, Text: one.text, Executable: one.mode&0o111 != 0})
		}
	}
	slices.SortFunc(f.Files, func(a, b features.File) int { return strings.Compare(a.Name, b.Name) })
	return f, nil
}

// Label is the label by which an image says what its features ask for, after what the
// image below says.
func Label(below string, entries []metadata.Entry) (string, error) {
	var list []metadata.Entry
	if below != "" {
		var err error
		if list, err = metadata.OfLabel(below); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(append(list, entries...))
	if err != nil {
		return "", fmt.Errorf("write the image's label: %w", err)
	}
	return string(text), nil
}
