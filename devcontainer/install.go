package devcontainer

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"cloister/devcontainer/metadata"
	"cloister/devcontainer/services"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

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
	if s := d.Own(); s != nil {
		return d.ServiceRecipe(*s.Build, hidden, own)
	}
	build, _ := d.Config["build"].(map[string]any)
	b := services.Build{Context: d.Context, Dockerfile: d.Dockerfile, Arguments: map[string]string{}}
	args, _ := build["args"].(map[string]any)
	for name, v := range args {
		b.Arguments[name] = fmt.Sprint(v)
	}
	b.Target, _ = build["target"].(string)
	return d.ServiceRecipe(b, hidden, own)
}

// ServiceRecipe is the recipe of a service's image.
func (d *Devcontainer) ServiceRecipe(
	b services.Build, hidden func(rel string, dir bool) bool, own func(name string) bool,
) Recipe {
	r := Recipe{Name: b.Dockerfile, Arguments: b.Arguments, Target: b.Target}
	r.Text = d.files.all[path.Clean(b.Dockerfile)].text
	if b.Inline != "" {
		r.Name, r.Text = "dockerfile_inline", []byte(b.Inline)
	}
	c := context{hidden: hidden, own: own}
	r.Files = func(w *tar.Writer) error {
		ignore := path.Join(b.Context, ".dockerignore")
		var err error
		if c.ignored, err = ignoring(d.files.all[ignore].text); err != nil {
			return fmt.Errorf("%s: %w", ignore, err)
		}
		root, err := os.OpenRoot(d.project)
		if err == nil {
			c.w = w
			err = errors.Join(c.enter(root, "", strings.Split(b.Context, "/")), root.Close())
		}
		if err != nil {
			return fmt.Errorf("the files beside %s: %w", b.Dockerfile, err)
		}
		return nil
	}
	return r
}

// Copy writes a file or folder of the project as it is now, by the rules of a build: a file
// is by itself, at the name ".".
func (d *Devcontainer) Copy(rel string, hidden func(rel string, dir bool) bool, w *tar.Writer) error {
	rel, err := relative("", rel)
	if err != nil {
		return fmt.Errorf("copy %s: %w", rel, err)
	}
	c := context{w: w, hidden: hidden}
	c.own, c.ignored = func(string) bool { return false }, func(string) (bool, error) { return false, nil }
	root, err := os.OpenRoot(d.project)
	if err == nil {
		err = errors.Join(c.part(root, "", strings.Split(rel, "/")), root.Close())
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", rel, err)
	}
	return nil
}

// part goes down to what is copied, which may be a file.
func (c *context) part(at *os.Root, rel string, down []string) error {
	if down[0] == "." {
		return c.folder(at, "", "")
	}
	name := path.Join(rel, down[0])
	info, err := at.Lstat(down[0])
	if err != nil {
		return err
	}
	if c.hidden(name, info.IsDir()) || down[0] == ".git" {
		return errors.New("it is hidden inside")
	}
	switch {
	case !info.IsDir() && len(down) == 1 && info.Mode().IsRegular():
		return c.file(at, down[0], info, &tar.Header{Name: ".", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()})
	case !info.IsDir():
		return errors.New("it is neither a file nor a folder")
	}
	return c.within(at, down[0], func(sub *os.Root) error {
		if len(down) == 1 {
			return c.folder(sub, name, "")
		}
		return c.part(sub, name, down[1:])
	})
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
