package stubs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/rawcall"
)

// pool keeps the stubs of one folder between its sessions, in Cloister's own data
// folder. To move one there and back takes a file system 6 µs, to make and remove
// one 100: ext4 looks long for an inode, and longer the more were given back
// lately. Where the data folder is on another file system, stubs are made.
//
// Who has one open writes wherever it goes. So none goes to another folder than
// the one that it came from, where that one may write anyway; none is kept while
// another cloister sees the folder (alone); and each is looked at before and
// behind each move: what is not as a stub is made is someone's, and stays.
type pool struct {
	dir   *os.File       // nil: there is none
	taken map[string]int // of each sort, how many slots were tried
	began time.Time      // when it was opened
}

// poolSize bounds the stubs of one sort that are kept.
const poolSize = 32

// openPool opens the stubs that are kept for a folder. One that cannot be had is
// done without.
func openPool(data, root string) *pool {
	p := &pool{taken: map[string]int{}, began: time.Now()}
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(data, "stubs", hex.EncodeToString(sum[:8]))
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(dir, 0o700) == nil {
		f, err = os.Open(dir)
	}
	if err == nil {
		p.dir = f
	}
	return p
}

func (p *pool) close() {
	if p.dir != nil {
		p.dir.Close()
	}
}

// seen tells other sessions, of every instance and user, that a cloister may write
// below a folder, for as long as the file is open: a lock of the folder itself,
// which leaves nothing behind. nil where that cannot be: then no one else has the
// other lock either.
func seen(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	if !lock(f, unix.LOCK_SH, 20) {
		f.Close()
		return nil
	}
	return f
}

// lock locks a folder, with so many tries. A stub's move holds it for a moment;
// whoever holds it longer is a cloister that sees it, or none and keeps all of them
// from moving theirs.
func lock(f *os.File, how, tries int) bool {
	for range tries {
		if unix.Flock(int(f.Fd()), how|unix.LOCK_NB) == nil {
			return true
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // there is no event to wait for
	}
	return false
}

// alone reports whether no other cloister sees a folder, which is so until the
// function that it gives is called. own is this session's file of it.
func alone(root string, own *os.File) (release func(), ok bool) {
	var held []*os.File
	release = func() {
		for _, f := range held {
			f.Close()
		}
	}
	if own == nil || !lock(own, unix.LOCK_EX, 3) {
		return release, false
	}
	for dir := root; dir != "/"; {
		dir = filepath.Dir(dir)
		f, err := os.Open(dir)
		if err != nil {
			return release, false
		}
		held = append(held, f)
		if !lock(f, unix.LOCK_EX, 3) {
			return release, false
		}
	}
	return release, true
}

// sort names stubs that are like each other.
func (s Stub) sort() string {
	if s.Kind == File {
		return filepath.Base(s.Rel) + "-"
	}
	return "folder-"
}

// take moves a kept stub to a name, and reports whether it did. The error says that
// the name is not free.
func (p *pool) take(s Stub, dir int, name string) (bool, error) {
	sort := s.sort()
	for p.dir != nil && p.taken[sort] < poolSize {
		slot := sort + strconv.Itoa(p.taken[sort])
		p.taken[sort]++
		err := rawcall.Renameat(int(p.dir.Fd()), slot, dir, name)
		if err == nil && !s.intact(dir, name) {
			err = rawcall.Renameat(dir, name, int(p.dir.Fd()), slot)
			if err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, fs.ErrExist):
			return false, err
		case !errors.Is(err, fs.ErrNotExist):
			p.taken[sort] = poolSize // another file system, or one that cannot: no more tries
		}
		return false, nil
	}
	return false, nil
}

// put moves a stub from its folder to those that are kept, and reports whether it
// did.
func (p *pool) put(s Stub, dir int) (bool, error) {
	sort, name := s.sort(), filepath.Base(s.Rel)
	for p.dir != nil && p.taken[sort] > 0 {
		if !p.untouched(s, dir, name) && !s.intact(dir, name) {
			return false, nil
		}
		p.taken[sort]--
		slot := sort + strconv.Itoa(p.taken[sort])
		err := rawcall.Renameat(dir, name, int(p.dir.Fd()), slot)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return false, nil // then it is removed
		}
		if s.intact(int(p.dir.Fd()), slot) {
			return true, nil
		}
		// Someone was quicker: it is theirs, and belongs where it was.
		if err := rawcall.Renameat(int(p.dir.Fd()), slot, dir, name); err != nil {
			return false, fmt.Errorf("put it back from %s: %w", filepath.Join(p.dir.Name(), slot), err)
		}
		return false, nil
	}
	return false, nil
}

// untouched reports whether a stub is by its looks as it came out of the pool: one look
// instead of five, so that what someone made of it need not be moved and put back. It is
// no proof, since its owner sets its times: that is the look behind the move.
func (p *pool) untouched(s Stub, dir int, name string) bool {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return false
	}
	return s.plain(&st) && time.Unix(st.Mtim.Unix()).Before(p.began.Add(-time.Second))
}

// plain reports whether a file or folder has the kind, the mode and the owner that the stub
// is made with.
func (s Stub) plain(st *unix.Stat_t) bool {
	mode := uint32(unix.S_IFREG | 0o644)
	if s.Kind != File {
		mode = unix.S_IFDIR | 0o755
	}
	return uint32(st.Mode) == mode && int(st.Uid) == os.Geteuid() && (s.Kind != File || st.Nlink == 1)
}

// link gives a name to the socket that all stubs of that kind are, and tells
// whether it did.
func (p *pool) link(dir int, name string) (bool, error) {
	if p.dir == nil {
		return false, nil
	}
	err := rawcall.Linkat(int(p.dir.Fd()), "socket", dir, name)
	if errors.Is(err, fs.ErrNotExist) && rawcall.Mknodat(int(p.dir.Fd()), "socket", unix.S_IFSOCK|0o444, 0) == nil {
		err = rawcall.Linkat(int(p.dir.Fd()), "socket", dir, name)
	}
	if errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return err == nil, nil
}

// intact reports whether what lies under a name is as the stub is made.
func (s Stub) intact(dir int, name string) bool {
	fd, st, ok := s.open(dir, name)
	if !ok {
		return false
	}
	defer unix.Close(fd)
	if !s.plain(&st) {
		return false
	}
	if s.Kind == File {
		return s.says(fd)
	}
	buf := make([]byte, 512)
	for count := 0; ; {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || count > 0 {
			return false
		}
		if n == 0 {
			return true
		}
		_, count, _ = unix.ParseDirent(buf[:n], 1, nil) // "." and ".." do not count
	}
}

// open opens what lies under a name if it is of the stub's kind; a pipe is not
// waited for.
func (s Stub) open(dir int, name string) (int, unix.Stat_t, bool) {
	flags, kind := unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, uint32(unix.S_IFREG)
	if s.Kind != File {
		flags, kind = flags|unix.O_DIRECTORY, unix.S_IFDIR
	}
	var st unix.Stat_t
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != nil {
		return -1, st, false
	}
	if unix.Fstat(fd, &st) != nil || uint32(st.Mode)&unix.S_IFMT != kind {
		unix.Close(fd)
		return -1, st, false
	}
	return fd, st, true
}

// says reports whether a file that is open says what the stub says.
func (s Stub) says(fd int) bool {
	buf := make([]byte, 64)
	n, err := unix.Read(fd, buf)
	return err == nil && string(buf[:n]) == Text(s.Rel)
}
