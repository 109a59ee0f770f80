package store

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"cloister/internal/ownfile"
	"cloister/state/layers"
	"cloister/state/parts"
	"cloister/state/quota"

	"golang.org/x/sys/unix"
)

// ErrNotFound says that no workspace or checkpoint has that name.
var ErrNotFound = errors.New("not found")

// Checkpoint is one kept moment of a workspace.
type Checkpoint struct {
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Message string    `json:"message,omitempty"`
	Parent  string    `json:"parent,omitempty"`
	Layers  []string  `json:"layers"` // the newest first
	Bytes   int64     `json:"bytes"`  // of the layer that it added
	Auto    bool      `json:"auto,omitempty"`
	// Conversation is the agent's of this moment, by its own name; "" where none is known.
	Conversation string `json:"conversation,omitempty"`
	// Digest covers the layers with the names, kinds, sizes, modes and times in each.
	Digest string `json:"digest"`
	// Memory is the folder among the layers that holds the memory of the same moment;
	// empty without one.
	Memory string `json:"memory,omitempty"`
}

// version 2 has the layers of home and repository, and digests over them.
const version = 2

// Store is a folder of workspaces.
type Store struct {
	// Quota bounds what workspaces take of the disk.
	Quota quota.Bounds

	dir string
	fs  string // layers, all of one owner
	uid int    // whose the layers are; -1 where that is this process's user
	gid int
}

// Open opens the store in a folder of the person's data. owner is the project whose
// owner the layers get when root runs it.
func Open(data, project string) (*Store, error) {
	s := &Store{dir: filepath.Join(data, "state"), uid: -1, gid: -1}
	s.fs = filepath.Join(s.dir, "fs")
	if os.Geteuid() == 0 && project != "" {
		var st unix.Stat_t
		if err := unix.Stat(project, &st); err != nil {
			return nil, fmt.Errorf("open workspace store: %s: %w", project, err)
		}
		s.uid, s.gid = int(st.Uid), int(st.Gid)
		s.fs += "-" + strconv.Itoa(s.uid)
	}
	return s, nil
}

func (s *Store) folder(name string) string { return filepath.Join(s.dir, name) }

// validName refuses what is no file name of ours. Names of cloisters are checked where
// they are made; this keeps a mistake there from leaving the folder.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00") &&
		!strings.HasPrefix(name, "fs") && len(name) <= 128 && !strings.ContainsFunc(name, unicode.IsControl)
}

// Names lists the workspaces.
func (s *Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	var out []string
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(s.dir, e.Name(), metaFile)); err == nil {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Ended waits until no session has a workspace mounted: the process that had is the last
// to know.
func (s *Store) Ended(ctx context.Context, name string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.Has(name) {
		f, err := lockFile(filepath.Join(s.folder(name), "use"), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f.Close()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// Begin makes the workspace of that name, or opens it again, for a session of an agent
// ("" for another command).
func (s *Store) Begin(name, project, agent string) (*Use, error) {
	if !validName(name) {
		return nil, fmt.Errorf("workspace %q: not a name", name)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make workspace store: %w", err)
	}
	if err := errors.Join(ownfile.Folder(s.dir), parts.Attributes(s.dir)); err != nil {
		return nil, err
	}
	if err := s.ensure(name, project); err != nil {
		return nil, err
	}
	w, err := s.Lock(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	if err := w.sameProject(project); err != nil {
		return nil, err
	}
	use, err := lockFile(filepath.Join(s.folder(name), "use"), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &Running{name}
	}
	if err != nil {
		return nil, err
	}
	if err := w.settle(); err != nil {
		return nil, errors.Join(err, use.Close())
	}
	if err = w.store.room("start "+name, w, w.Project, 0); err == nil {
		err = w.store.in().Make(w.Upper)
	}
	if err == nil && agent != "" && agent != w.Agent {
		w.Agent = agent
		err = w.save()
	}
	if err != nil {
		return nil, errors.Join(err, use.Close())
	}
	mount, err := w.mount()
	if err != nil {
		return nil, errors.Join(err, use.Close())
	}
	return &Use{Mount: mount, Name: name, lock: use, store: w.store, upper: w.Upper}, nil
}

// ensure makes the description of a workspace where there is none.
func (s *Store) ensure(name, project string) error {
	at := s.folder(name)
	if _, err := os.Lstat(filepath.Join(at, metaFile)); err == nil {
		return nil
	}
	if err := os.MkdirAll(at, 0o700); err != nil {
		return fmt.Errorf("make workspace: %w", err)
	}
	if err := s.sound(name); err != nil {
		return err
	}
	shared, err := lockFile(filepath.Join(s.dir, lockName), unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer func() { _ = shared.Close() }()
	m, err := s.describe(name, project)
	if err != nil {
		return err
	}
	w := &Workspace{meta: m, store: s}
	return w.save()
}

func (s *Store) describe(name, project string) (meta, error) {
	var st unix.Stat_t
	if err := unix.Stat(project, &st); err != nil {
		return meta{}, fmt.Errorf("make workspace: %s: %w", project, err)
	}
	since, err := s.clock()
	if err != nil {
		return meta{}, err
	}
	return meta{
		Version: version, Name: name, Project: project, Dev: uint64(st.Dev), Inode: st.Ino,
		Created: time.Now().UTC(), Since: since, Upper: newID(),
	}, nil
}

// clock reads the clock by which the kernel stamps files, which is coarser than that
// of programs.
func (s *Store) clock() (int64, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return 0, fmt.Errorf("make workspace store: %w", err)
	}
	f, err := os.CreateTemp(s.dir, ".clock-")
	if err != nil {
		return 0, fmt.Errorf("make workspace: %w", err)
	}
	name := filepath.Base(f.Name())
	defer func() { _ = os.Remove(f.Name()) }()
	if err := f.Close(); err != nil {
		return 0, err
	}
	dir, err := layers.OpenFolder(s.dir)
	if err != nil {
		return 0, err
	}
	n, err := dir.Stat(name)
	return n.Stamp.Ctime, errors.Join(err, dir.Close())
}

func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it cannot fail (crypto/rand)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}

// layer is the project's part of one layer, or of an upper.
func (s *Store) layer(id string) string { return s.in().At(id, parts.Project) }
