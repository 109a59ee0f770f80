package native

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"cloister/internal/realpath"
	"cloister/sandbox"
)

// base makes what the view is built on: an empty tmpfs or, with an image, an
// overlay of the image's root and a tmpfs that takes what is made inside.
func (v *view) base() {
	p := v.p
	if v.image == "" {
		v.tmpfs(v.root, "size=32m", "mode=0755", "nr_inodes=16k")
		return
	}
	image := p.cell()
	where := place{source: sandbox.HostPath(v.image)}
	v.clone(where, image)
	if passed := v.mounts[where]; passed != nil {
		p.sys("close the image's mount", unix.SYS_CLOSE, passed)
		delete(v.mounts, where)
	}
	v.overlay("image", image, v.root, nil, "size=32m", "mode=0755", "nr_inodes=16k")
	v.clearFresh()
}

// upper is where an overlay keeps what is written, and a detached mount of that store.
type upper struct {
	sandbox.Upper
	store *int32
}

// overlay lays a tmpfs over a detached mount: it takes what is written, and is
// gone with the view; with kept, what is written stays there. Its folders are named
// relative to the working folder, so that no path of the host stands in the list of
// mounts.
func (v *view) overlay(what string, below, out *int32, kept *upper, options ...string) {
	p := v.p
	stage, overlay, lower := p.cell(), p.cell(), p.cell()
	v.tmpfs(stage, options...)
	// Not on /, where it would stay under the new root and the host's under it:
	// on a folder that every Linux has and that nothing of is shown.
	p.sys("attach the stage of "+what, unix.SYS_MOVE_MOUNT, stage, "", unix.AT_FDCWD, "/proc",
		unix.MOVE_MOUNT_F_EMPTY_PATH)
	for _, dir := range []string{"lower", "upper", "work"} {
		p.sys("make folder "+dir, unix.SYS_MKDIRAT, stage, dir, 0o755)
	}
	v.restrict(what, below, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	place := func(mount *int32, name string) {
		p.sys("open the place of "+what, unix.SYS_OPENAT, stage, name, unix.O_PATH|unix.O_CLOEXEC, 0).to(lower)
		v.attachAt(mount, lower, what)
		p.sys("close the place of "+what, unix.SYS_CLOSE, lower)
	}
	place(below, "lower")
	set := [][2]string{{"source", what}, {"lowerdir", "lower"}, {"upperdir", "upper"}, {"workdir", "work"}}
	var held [][2]string // set by descriptor
	if kept != nil {
		v.restrict(what, kept.store, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		place(kept.store, "upper")
		set = kept.folders()
		if v.lent == nil {
			set = append([][2]string{{"source", what}}, append(set, [2]string{"lowerdir+", "lower"})...)
		} else {
			held, set = set, [][2]string{{"source", what}, {"lowerdir+", "lower"}}
		}
	}

	p.sys("go to the stage of "+what, unix.SYS_FCHDIR, stage)
	p.sys("open overlay of "+what, unix.SYS_FSOPEN, "overlay", unix.FSOPEN_CLOEXEC).to(overlay)
	for _, o := range held {
		v.hold(stage, overlay, o[0], o[1])
	}
	for _, o := range set {
		p.sys("set overlay "+o[0], unix.SYS_FSCONFIG, overlay, unix.FSCONFIG_SET_STRING, o[0], o[1], 0)
	}
	p.sys("set overlay userxattr", unix.SYS_FSCONFIG, overlay, unix.FSCONFIG_SET_FLAG, "userxattr", 0, 0)
	v.lent.overlays(p, building|1<<unix.CAP_DAC_OVERRIDE)
	p.sys("create overlay of "+what, unix.SYS_FSCONFIG, overlay, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	v.lent.overlays(p, building)
	p.sys("mount overlay of "+what, unix.SYS_FSMOUNT, overlay, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV).to(out)
	p.sys("close overlay", unix.SYS_CLOSE, overlay)
	p.sys("close the stage of "+what, unix.SYS_CLOSE, stage)
}

// folders are the overlay's own in the store, by their options.
func (u *upper) folders() [][2]string {
	out := [][2]string{{"upperdir", "upper/" + u.Dir}, {"workdir", "upper/" + u.Work}}
	for _, layer := range u.Lower {
		out = append(out, [2]string{"lowerdir+", "upper/" + layer})
	}
	return out
}

// hold sets a folder of an overlay by a descriptor that was opened through no link: its
// owner, who is not the builder, may put one in its place at any moment.
func (v *view) hold(stage, overlay *int32, option, name string) {
	at, how := v.p.cell(), &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	v.p.sys("open the overlay's "+option, unix.SYS_OPENAT2, stage, name, pointerTo(how), unix.SizeofOpenHow).to(at)
	v.p.sys("hold an overlay's folder", unix.SYS_FSCONFIG, overlay, unix.FSCONFIG_SET_FD, option, 0, at)
	v.p.sys("close the overlay's "+option, unix.SYS_CLOSE, at)
}

// fresh are the folders on which something new is mounted, whatever the image has
// there.
var fresh = []string{"/tmp", "/proc", "/dev"}

// clearFresh makes folders of what is no folder in the image where one is needed.
func (v *view) clearFresh() {
	for _, dir := range fresh {
		if fi, err := v.look(dir); err == nil && !fi.IsDir() {
			v.p.sys("remove the image's "+dir, unix.SYS_UNLINKAT, v.root, rel(dir), 0)
		}
	}
}

// look looks at a path of the image itself. Its root does not change, so what is
// seen now is what the child will find.
func (v *view) look(guest string) (fs.FileInfo, error) {
	return os.Lstat(filepath.Join(v.image, guest))
}

// real is where a guest path is, once the image's own symbolic links are
// followed as if the image were /; last reports whether one at its end is. The
// child opens nothing through links.
func (v *view) real(guest string, last bool) string {
	if v.image == "" {
		return guest
	}
	if !last {
		return path.Join(v.real(path.Dir(guest), true), path.Base(guest))
	}
	real, err := realpath.In(v.image, guest, func(at string) realpath.Place {
		switch {
		case v.covered(at) || slices.Contains(fresh, at) || slices.Contains(v.owned, at):
			return realpath.Other
		case v.made[at]:
			return realpath.Made
		}
		return realpath.Roots
	})
	if err != nil {
		v.bad = fmt.Errorf("start native: read the image: %w", err)
		return guest
	}
	return real
}

// own makes sure that the folders down to a bind are folders and no links of the
// image's: the project is at its own path, and a watcher of its mounts finds them
// there. What the image had in the way is not seen.
func (v *view) own(guest string) {
	if v.image == "" || v.covered(guest) {
		return
	}
	for end := 1; end <= len(guest); end++ {
		if end < len(guest) && guest[end] != '/' {
			continue
		}
		at := guest[:end]
		if slices.Contains(fresh, at) || slices.Contains(v.owned, at) {
			return
		}
		fi, err := v.look(at)
		if err != nil {
			return // the image has nothing there or below
		}
		if !fi.IsDir() {
			v.p.sys("remove the image's "+at, unix.SYS_UNLINKAT, v.root, rel(at), 0)
			v.owned = append(v.owned, at)
			return
		}
	}
}

// instead removes what the image has at a path where something is to be made. A
// file is overwritten, and a folder stays.
func (v *view) instead(guest string) string {
	guest = v.real(guest, false)
	if v.image == "" || v.made[guest] || v.covered(guest) {
		return guest
	}
	if fi, err := v.look(guest); err == nil && !fi.IsDir() {
		v.p.sys("remove the image's "+guest, unix.SYS_UNLINKAT, v.root, rel(guest), 0)
	} else if err == nil {
		return guest
	}
	v.made[guest] = true
	return guest
}

// imageFolder reports whether the image has a folder there.
func (v *view) imageFolder(guest string) bool {
	if v.image == "" {
		return false
	}
	fi, err := v.look(guest)
	return err == nil && fi.IsDir()
}

// imageText reads a small file of the image; it is empty where it has none.
func (v *view) imageText(guest string) (string, error) {
	if v.image == "" {
		return "", nil
	}
	root, err := os.OpenRoot(v.image)
	if err != nil {
		return "", fmt.Errorf("start native: read the image: %w", err)
	}
	defer root.Close()
	at := rel(v.real(guest, true))
	fi, err := root.Lstat(at)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxCopied {
		return "", nil // absent, or nothing that a program would read
	}
	text, err := root.ReadFile(at)
	if err != nil {
		return "", fmt.Errorf("start native: read the image: %w", err)
	}
	return string(text), nil
}

// again mounts a memory at a second path.
func (v *view) again(guest, second string) {
	at, fd := v.at(guest), v.p.cell()
	v.p.sys("clone "+guest, unix.SYS_OPEN_TREE, at, "",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH).to(fd)
	v.p.sys("close "+guest, unix.SYS_CLOSE, at)
	v.attach(fd, second)
}

// passImage sends the mount of the image to the child, as root, which must reach
// it before it can build anything, and those of a hosted kernel's files.
func (s *begun) passImage() (map[place]*int32, error) {
	if !s.asRoot {
		return nil, nil
	}
	binds := s.hosted.binds()
	if s.ground.Root.Dir != "" {
		binds = append(binds, sandbox.Bind{Source: s.ground.Root.Dir})
	}
	if len(binds) == 0 {
		return nil, nil
	}
	mounts, err := cloneMounts(binds, s.payloadID)
	defer mounts.close()
	if err != nil {
		return nil, err
	}
	return s.p.passMounts(s.j, mounts)
}
