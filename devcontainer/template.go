package devcontainer

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

//go:embed templates/*.json
var templateFiles embed.FS

// Template is a devcontainer for cloisters to start from, for a project of this kind.
func Template(kind string) ([]byte, error) {
	text, err := templateFiles.ReadFile("templates/" + kind + ".json")
	if err != nil {
		return nil, fmt.Errorf("there is no devcontainer for a project of %s", kind)
	}
	return text, nil
}

// WriteOwn writes the devcontainer.json that is for cloisters alone, and gives its place
// from the project's top. What is there stays as it is, and no link is followed.
func WriteOwn(project string, text []byte) (name string, err error) {
	name = path.Join(ownFolder, "devcontainer.json")
	root, err := os.OpenRoot(project)
	if err != nil {
		return name, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	at := root
	for dir := range strings.SplitSeq(ownFolder, "/") {
		if err := at.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return name, reason(err)
		}
		below, err := folderIn(at, dir)
		if err != nil {
			return name, err
		}
		defer below.Close()
		at = below
	}
	f, err := at.OpenFile("devcontainer.json", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return name, reason(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		// Half a file would be read as the project's word.
		return name, errors.Join(err, at.Remove("devcontainer.json"))
	}
	return name, nil
}

// folderIn opens a folder that is no link.
func folderIn(at *os.Root, name string) (*os.Root, error) {
	fi, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("%s is no folder", name)
	}
	sub, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := sub.Stat("."); err != nil || !os.SameFile(fi, now) {
		return nil, errors.Join(fmt.Errorf("%s changed while it was read", name), sub.Close())
	}
	return sub, nil
}
