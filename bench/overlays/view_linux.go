package overlays

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/state/store"
)

func (m *measuring) view(mount store.Mount, at string) error {
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	var lower []string
	for _, l := range mount.Project.Lower {
		lower = append(lower, filepath.Join(mount.Store, l))
	}
	options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(append(lower, m.project), ":"),
		filepath.Join(mount.Store, mount.Project.Upper), filepath.Join(mount.Store, mount.Project.Work))
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	m.views = append(m.views, at)
	return nil
}

func (m *measuring) unmount() error {
	var err error
	for _, at := range m.views {
		err = errors.Join(err, unix.Unmount(at, 0))
	}
	m.views = nil
	return err
}
