package template

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/ownfile"
)

// Store is the folder that templates lie in. Each is a file named by its shape and its digest, and is never changed.
type Store struct{ Dir string }

// Lasts is how old a template may be, and so what its machines share, such as where their kernel lies. Most is how many
// there are.
const (
	Lasts = 24 * time.Hour
	Most  = 4
)

// room is what must be free where one is to be made, in bytes: one takes some 200 MiB.
const room = 512 << 20

// ErrNone says that there is no template of a shape, or one that is too old; ErrBusy that another process makes one.
var (
	ErrNone = errors.New("there is no template")
	ErrBusy = errors.New("another process makes a template")
)

// Open opens the template of a shape, to read. Its digest is what it must have, which [Read] holds it to.
func (s Store) Open(shape string) (f *os.File, digest string, err error) {
	list, err := s.beginning(shape + ".")
	if err != nil || len(list) == 0 {
		return nil, "", errors.Join(ErrNone, err)
	}
	if err := s.own(); err != nil {
		return nil, "", err
	}
	at := list[0]
	digest = strings.TrimPrefix(filepath.Base(at), shape+".")
	if f, err = ownfile.Open(at); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", ErrNone // it was removed in the meantime
		}
		return nil, "", err
	}
	fi, err := f.Stat()
	if err == nil {
		err = own(at, fi)
	}
	if age := time.Since(fi.ModTime()); err == nil && (age > Lasts || age < -time.Hour) {
		err = ErrNone
	}
	if err != nil {
		f.Close()
		return nil, "", err
	}
	return f, digest, nil
}

// beginning are the files whose names begin so.
func (s Store) beginning(name string) (list []string, err error) {
	all, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range all {
		if strings.HasPrefix(e.Name(), name) {
			list = append(list, filepath.Join(s.Dir, e.Name()))
		}
	}
	return list, err
}

// own refuses what is not this user's alone to change.
func own(at string, fi fs.FileInfo) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || fi.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not this user's alone to change", at)
	}
	return nil
}

// own refuses a folder that another could put files into.
func (s Store) own() error {
	if err := ownfile.Folder(s.Dir); err != nil {
		return err
	}
	fi, err := os.Lstat(s.Dir)
	if err != nil {
		return err
	}
	return own(s.Dir, fi)
}

// Clear removes a folder that another could put files into.
func (s Store) Clear() error {
	if err := s.own(); err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.RemoveAll(s.Dir)
}

// Make has do write the template of a shape, and keeps it once it is whole. A shape has one, and the oldest of all are
// removed.
func (s Store) Make(shape string, do func(to *os.File) error) (err error) {
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := s.own(); err != nil {
		return err
	}
	lock, err := ownfile.Create(filepath.Join(s.Dir, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return ErrBusy
		}
		return err
	}
	if err := s.sweep(); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, begun+"*")
	if err != nil {
		return err
	}
	var digest string
	if err = do(f); err == nil {
		digest, err = kept(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(s.Dir, shape+"."+digest))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return s.prune(shape, digest)
}

// begun begins the name of one that is not whole.
const begun = ".new-"

// sweep removes what makers left that were killed, and says if there is no room. The lock is held.
func (s Store) sweep() error {
	list, err := s.beginning(begun)
	for _, at := range list {
		err = errors.Join(err, os.Remove(at))
	}
	if err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(s.Dir, &st); err != nil {
		return err
	}
	if free := st.Bavail * uint64(st.Bsize); free < room {
		return fmt.Errorf("%s has room for %d MiB, and %d are needed", s.Dir, free>>20, room>>20)
	}
	return nil
}

// kept has a file on disk as a whole, and gives its digest.
func kept(f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), f.Sync()
}

// prune removes others of a shape, and the oldest beyond Most. A machine that begins from one has it open.
func (s Store) prune(shape, digest string) error {
	type aged struct {
		name string
		when time.Time
	}
	list, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	var others []aged
	for _, e := range list {
		of, its, ok := strings.Cut(e.Name(), ".")
		if !ok || of == "" || of == shape && its == digest {
			continue
		}
		if fi, ierr := e.Info(); ierr == nil && of != shape && time.Since(fi.ModTime()) < Lasts {
			others = append(others, aged{e.Name(), fi.ModTime()})
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(s.Dir, e.Name())))
	}
	slices.SortFunc(others, func(a, b aged) int { return cmp.Compare(b.when.UnixNano(), a.when.UnixNano()) })
	for _, old := range others[min(len(others), Most-1):] {
		err = errors.Join(err, os.Remove(filepath.Join(s.Dir, old.name)))
	}
	return err
}
