package beside

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"cloister/devcontainer/services"
	"cloister/sandbox"
	"cloister/state/layers"
	"cloister/workspace/homes"
)

// Running says that the services of a project run already, for another cloister of it.
type Running struct{ Project string }

func (e *Running) Error() string {
	return "the services of " + e.Project + " run already, beside another cloister of it"
}

// Hints are the words of what to do.
func (*Running) Hints() []string {
	return []string{"two servers on one volume destroy it: end the other one (cloister list)",
		"or start this one without services: --image IMAGE"}
}

// lockWithin is how long one that has just ended may hold its lock.
const lockWithin = 2 * time.Second

// lock makes sure that the services of a project run once. Its file lies where no service
// writes.
func (p *Plan) lock() (*os.File, error) {
	if err := os.MkdirAll(p.folder, 0o700); err != nil {
		return nil, fmt.Errorf("start services: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(p.folder, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start services: %w", err)
	}
	for began := time.Now(); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, p.note()
		case errors.Is(err, unix.EINTR):
		case time.Since(began) > lockWithin:
			return nil, errors.Join(&Running{p.o.Project}, f.Close())
		default:
			<-time.After(20 * time.Millisecond)
		}
	}
}

// home is the folder that all volumes of a project's services are in: nothing shows it as a
// whole to any of them. It is one of the private homes, and known as such.
func (p *Plan) home() string { return homes.Of(p.o.Data, p.folder) }

// room is a member's own part of it.
func (p *Plan) room(m *member, more ...string) string {
	return filepath.Join(append([]string{p.home(), "service-" + m.Name}, more...)...)
}

// The folders of a room: kept from start to start, and empty at each.
const (
	kept    = "kept"
	scratch = "scratch"
)

// folderOf makes a folder that a payload may have closed to its own user.
func folderOf(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// clear removes what the last start left behind, also where it was killed.
func (p *Plan) clear(m *member) error {
	if err := folderOf(p.room(m)); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	if err := layers.RemoveAll(p.room(m), scratch); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start %s: empty its folders: %w", m.Name, err)
	}
	return nil
}

// places are what a member sees besides its image: its private home is the one at home. Nothing
// of them is laid over the kept places.
func (p *Plan) places(m *member, keep ...string) ([]sandbox.Bind, error) {
	list := slices.Clone(m.Mounts)
	if m != p.agent {
		more := []services.Mount{{Kind: services.OfTmpfs, Target: "/run"}}
		if m.Image.Run != nil {
			for _, target := range m.Image.Run.Volumes {
				more = append(more, services.Mount{Kind: services.OfVolume, Target: path.Clean("/" + target)})
			}
		}
		for _, mount := range more {
			if mount.Target != "/" && !slices.ContainsFunc(list, func(o services.Mount) bool {
				return within(mount.Target, o.Target)
			}) {
				list = append(list, mount)
			}
		}
	}
	landed, err := m.lands(list, keep...)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", m.Name, err)
	}
	binds := []sandbox.Bind{}
	for i, mount := range list {
		if m == p.agent && mount.Kind == services.OfProject {
			continue // it has the project itself
		}
		b, err := p.place(m, mount)
		if err != nil {
			return nil, fmt.Errorf("start %s: %s: %w", m.Name, mount.Target, err)
		}
		b.Target = sandbox.GuestPath(landed[i].Target)
		binds = append(binds, b)
	}
	return binds, nil
}

// place makes one of them ready.
func (p *Plan) place(m *member, mount services.Mount) (sandbox.Bind, error) {
	sum := sha256.Sum256([]byte(mount.Target))
	id := hex.EncodeToString(sum[:6])
	b := sandbox.Bind{Target: sandbox.GuestPath(mount.Target), Access: sandbox.ReadWrite}
	if mount.ReadOnly {
		b.Access = sandbox.ReadOnly
	}
	var dir string
	switch mount.Kind {
	case services.OfTmpfs:
		dir = p.room(m, scratch, id)
	case services.OfProject:
		file, err := p.copied(mount.Source, p.room(m, scratch, id))
		b.Source, b.File = sandbox.HostPath(p.room(m, scratch, id)), file
		if file {
			b.Source = sandbox.HostPath(p.room(m, scratch, id, "file"))
		}
		return b, err
	case services.OfVolume:
		dir = p.room(m, kept, id)
		if mount.Source != "" {
			dir = filepath.Join(p.home(), "volumes", mount.Source)
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := p.filled(m, mount.Target, dir); err != nil {
				return b, err
			}
		}
	}
	b.Source = sandbox.HostPath(dir)
	return b, folderOf(dir)
}
