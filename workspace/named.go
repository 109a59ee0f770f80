package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"cloister/host/taint"
)

// named resolves what is shown by name, once. From here on the paths are whole and
// have no links. Where a payload or another user could have chosen where one leads,
// the start is over: only who types where it leads means that.
func (v *View) named(o *Options) error {
	o.Expose, o.Refs = slices.Clone(o.Expose), slices.Clone(o.Refs)
	for i, e := range o.Expose {
		real, err := leads(o, e.Path)
		if err != nil {
			return fmt.Errorf("expose %s: %w", e.Path, err)
		}
		if real != e.Path && e.Typed {
			v.Notices = append(v.Notices, fmt.Sprintf("--expose %s shows %s", e.Path, real))
		}
		o.Expose[i].Path = real
	}
	for i, r := range o.Refs {
		real, err := leads(o, r)
		if err != nil {
			return fmt.Errorf("show %s at /refs: %w", r, err)
		}
		o.Refs[i] = real
	}
	return nil
}

func leads(o *Options, path string) (string, error) {
	f, err := o.Host.Find(path)
	if err != nil {
		return "", err
	}
	return f.Real, f.Chosen()
}

// enter writes down what the session may write, before anything of it can.
func (v *View) enter(home string, o Options) error {
	p, root := v.project, string(v.project.Root)
	var places []taint.Place
	writable := v.writable(o)
	mounts, err := mountsIn(writable)
	if err != nil {
		return err
	}
	for _, at := range mounts {
		fi, err := taint.Look(at)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTCONN) {
			continue // another mount is over it, the session does not reach it either, or its server is gone
		}
		if err != nil {
			return fmt.Errorf("enter %s as a place that a cloister can write: %w", at, err)
		}
		places = append(places, taint.Place{Kind: taint.Exposed, Path: at, ID: fi.ID})
	}
	for _, path := range writable {
		place := taint.Place{Kind: taint.Exposed, Path: path}
		switch {
		case path == root && !o.None && !o.Overlay:
			place.Kind, place.Pin = taint.Project, PinOf(p)
		case p.Git != nil && path == p.Git.Common:
			place.Kind = taint.Git
		}
		places = append(places, place)
	}
	// All private homes, and the working trees of branches, whoever has them.
	places = append(places, taint.Place{Kind: taint.Private, Path: filepath.Dir(home)})
	if trees, err := o.Host.Find(filepath.Join(o.Data, "worktrees")); err == nil {
		places = append(places, taint.Place{Kind: taint.Private, Path: trees.Real})
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the worktrees: %w", err)
	}
	if u := o.Uppers.Project; u != nil {
		places = append(places, taint.Place{Kind: taint.Private, Path: string(u.Store)})
	}
	return o.Host.Places().Enter(places...)
}

// PinOf is what a project is held to at its next start.
func PinOf(p Project) taint.Pin {
	pin := taint.Pin{Main: string(p.Main)}
	if p.Git != nil {
		pin.Git = p.Git.Dir
	}
	return pin
}
