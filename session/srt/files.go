// Package srt makes of sandbox-runtime's settings what a session is asked for.
package srt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"cloister/config/imports"
	"cloister/internal/realpath"
	"cloister/session/launch"
)

// Files are what settings say of files, as a run's flags say it.
type Files struct {
	ReadOnly              bool // the project
	Hide, Protect, Expose []string
}

// View makes what settings say of files the view: the project is writable where it lies in a
// path of allowWrite, and else read-only. What a denial names is hidden or protected in the
// project, and outside it is not shown at all; a denial that can be held in neither way is an
// error. The project and the working folder are without links.
func View(s imports.SRT, project, here, home string) (Files, error) {
	v := &view{home: home, root: project, here: here, shown: map[string]bool{}}
	for _, path := range s.Filesystem.AllowWrite {
		v.allowWrite(path)
	}
	for _, path := range s.Filesystem.AllowRead {
		v.allowRead(path)
	}
	var err error
	for _, path := range s.Filesystem.DenyWrite {
		err = errors.Join(err, v.denyWrite(path))
	}
	for _, path := range s.Filesystem.DenyRead {
		err = errors.Join(err, v.denyRead(path))
	}
	f := Files{ReadOnly: !v.writable, Hide: v.hide, Protect: v.protect}
	for _, path := range v.order {
		if v.shown[path] {
			path += ":rw"
		}
		f.Expose = append(f.Expose, path)
	}
	return f, err
}

// A view is what settings come to.
type view struct {
	home          string
	root, here    string // the project, and the working folder: no link leads there
	writable      bool   // the project
	read          bool   // allowRead names the project, or a folder around it
	shown         map[string]bool
	order         []string // keys of shown, whose values say whether they are written
	hide, protect []string
}

// path is one of the settings' as an absolute one, without links as far as it is there.
func (v *view) path(text string) (string, error) {
	path, err := launch.Tilde(text, v.home)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.here, path)
	}
	path = filepath.Clean(path)
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := realpath.Of(at); err == nil {
			return filepath.Join(real, rest), nil
		}
		if at == "/" {
			return path, nil
		}
	}
}

// plain is a path that can be shown. What is not there, and a pattern, is passed over,
// there as here.
func (v *view) plain(text string) (string, bool) {
	path, err := v.path(text)
	if err != nil || strings.ContainsAny(text, "*?[:") {
		return "", false
	}
	_, err = os.Stat(path)
	return path, err == nil
}

func (v *view) expose(path string, writable bool) {
	if _, there := v.shown[path]; !there {
		v.order = append(v.order, path)
	}
	v.shown[path] = v.shown[path] || writable
}

func (v *view) allowWrite(text string) {
	path, ok := v.plain(text)
	switch {
	case !ok, realpath.Inside(path, "/tmp") && !realpath.Inside(v.root, path), realpath.Inside(path, "/dev"):
	case realpath.Inside(v.root, path):
		v.writable = true
	default:
		v.expose(path, true)
	}
}

func (v *view) allowRead(text string) {
	path, ok := v.plain(text)
	switch {
	case !ok:
	case realpath.Inside(v.root, path):
		v.read = true
	case !realpath.Inside(path, v.root):
		v.expose(path, false)
	}
}

// denied is what a denial names. A pattern that names something within what is shown
// outside the project, or around the project, cannot be held.
func (v *view) denied(key, text string) (path string, err error) {
	if path, err = v.path(text); err != nil {
		return "", fmt.Errorf("filesystem.%s: %w", key, err)
	}
	if !strings.ContainsAny(path, "*?[") || realpath.Inside(path, v.root) {
		return path, nil
	}
	for _, shown := range append([]string{v.root}, v.order...) {
		if meets(path, shown) {
			return "", v.unheld(key, text, shown)
		}
	}
	return path, nil
}

// meets reports whether a pattern may name a folder, something around it or below it. A
// pattern that matches on every level may.
func meets(pattern, folder string) bool {
	one, two := strings.Split(pattern, "/"), strings.Split(folder, "/")
	for i := range min(len(one), len(two)) {
		if strings.Contains(one[i], "**") {
			return true
		}
		if same, err := filepath.Match(one[i], two[i]); err == nil && !same {
			return false
		}
	}
	return true
}

func (v *view) unheld(key, text, shown string) error {
	return fmt.Errorf("filesystem.%s %s cannot be held, since %s is shown: name the parts of it that are needed", key,
		text, shown)
}

// denyWrite holds a denial, which weighs more than what may be written.
func (v *view) denyWrite(text string) error {
	path, err := v.denied("denyWrite", text)
	switch {
	case err != nil:
		return err
	case realpath.Inside(v.root, path):
		v.writable = false
	case realpath.Inside(path, v.root):
		v.protect = append(v.protect, strings.TrimPrefix(path, v.root+"/"))
	}
	for _, shown := range v.order {
		switch {
		case realpath.Inside(shown, path):
			v.shown[shown] = false
		case v.shown[shown] && realpath.Inside(path, shown):
			return v.unheld("denyWrite", text, shown)
		}
	}
	return nil
}

// denyRead holds a denial, but for what allowRead or allowWrite name within it.
func (v *view) denyRead(text string) error {
	path, err := v.denied("denyRead", text)
	switch {
	case err != nil:
		return err
	case path == v.root, realpath.Inside(v.root, path) && !v.read:
		return fmt.Errorf("filesystem.denyRead %s denies the project %s, and allowRead does not name it", text, v.root)
	case realpath.Inside(path, v.root):
		v.hide = append(v.hide, strings.TrimPrefix(path, v.root+"/"))
	}
	for _, shown := range v.order {
		if realpath.Inside(path, shown) {
			return v.unheld("denyRead", text, shown)
		}
	}
	return nil
}
