package gitdir

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"cloister/host/resolve"
)

// An index says of each file what git saw of it (times, size, inode), and git reads a file
// again only where that differs. Whoever writes an index can so have git show a changed
// file as unchanged: gitformat-index(5), ie_match_stat of git's read-cache.c.

// maxIndex bounds an index that is looked at: a million entries.
const maxIndex = 256 << 20

// Doubt says of a file of the working tree whether it changed, so that git has to compare its
// content at the next look, and whether also a mark in the index counts for nothing by which
// git does not look at all.
type Doubt func(path string) (changed, marked bool)

// Reread has git look again at the files that an index is not believed about, and drops what
// it says of untracked files, of whole folders and of a file watcher's answers. What is staged
// stays as it is. file is the index of a git folder.
func Reread(file string, d Doubt) error {
	if err := reread(filepath.Dir(file), filepath.Base(file), d); err != nil {
		return fmt.Errorf("read the index %s again: %w", file, err)
	}
	return nil
}

func reread(folder, name string, d Doubt) error {
	dir, err := resolve.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	lock, err := lockIndex(dir, name+".lock")
	if err != nil {
		return err
	}
	err = rewrite(dir, name, lock, hashOf(folder), d)
	if err = errors.Join(err, lock.Close()); err == nil {
		err = dir.Rename(name+".lock", name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(name+".lock"))
	}
	return nil
}

// rewrite writes what the index is to be into its lock.
func rewrite(dir *os.Root, name string, lock *os.File, sum hash.Hash, d Doubt) error {
	text, info, err := readIndex(dir, name)
	if err != nil {
		return err
	}
	out, err := doubted(text, sum, d)
	if err != nil {
		return err
	}
	if _, err := lock.Write(out); err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		if err := lock.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return lock.Chmod(info.Mode().Perm())
}

// lockIndex takes the lock that git takes, and waits a moment for a git of the host.
func lockIndex(dir *os.Root, name string) (*os.File, error) {
	for end := time.Now().Add(time.Second); ; {
		f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) || time.Now().After(end) {
			return f, err
		}
		<-time.After(20 * time.Millisecond)
	}
}

func readIndex(dir *os.Root, name string) ([]byte, fs.FileInfo, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err == nil && len(text) > maxIndex {
		err = fmt.Errorf("more than %d bytes", maxIndex)
	}
	return text, info, err
}

// hashOf is the checksum of a repository's object format. The folder of a linked working
// tree has no configuration: that of its repository holds.
func hashOf(folder string) hash.Hash {
	for _, file := range []string{"config", "../../config"} {
		if Last(Read(filepath.Join(folder, file)), "extensions", "objectformat") == "sha256" {
			return sha256.New()
		}
	}
	return sha1.New()
}

var errIndex = errors.New("not an index that git writes")

// The parts of an entry: stat data, then the object's name, flags and the path.
const (
	statSize   = 40
	modeAt     = 24
	sizeAt     = 36
	times      = 16 // ctime and mtime, first of the stat data
	gitlink    = 0o160000
	extended   = 1 << 14
	unlooked   = 1 << 15 // assume-unchanged
	skipped    = 1 << 14 // skip-worktree, in the further flags
	headerSize = 12
)

// doubted is an index as Reread leaves it.
func doubted(text []byte, sum hash.Hash, d Doubt) ([]byte, error) {
	size := sum.Size()
	if len(text) < headerSize+size || string(text[:4]) != "DIRC" {
		return nil, errIndex
	}
	body, trailer := text[:len(text)-size], text[len(text)-size:]
	version, count := binary.BigEndian.Uint32(body[4:]), binary.BigEndian.Uint32(body[8:])
	if version < 2 || version > 4 {
		return nil, errIndex
	}
	out, at, path := bytes.Clone(body), headerSize, []byte(nil)
	for range count {
		e, err := entryAt(out, at, size, version, path)
		if err != nil {
			return nil, err
		}
		e.doubt(out[at:], size, d)
		at, path = e.next, e.path
	}
	extensions, err := kept(body[at:])
	if err != nil {
		return nil, err
	}
	out = append(out[:at], extensions...)
	if bytes.Equal(trailer, make([]byte, size)) {
		return append(out, trailer...), nil // index.skipHash
	}
	sum.Write(out)
	return sum.Sum(out), nil
}

type entry struct {
	path    []byte
	next    int
	further bool // it has further flags
}

func entryAt(b []byte, at, size int, version uint32, before []byte) (e entry, err error) {
	name := at + statSize + size + 2
	if name > len(b) {
		return e, errIndex
	}
	if e.further = version > 2 && binary.BigEndian.Uint16(b[name-2:])&extended != 0; e.further {
		name += 2
	}
	if name > len(b) {
		return e, errIndex
	}
	if version == 4 {
		cut, n := offset(b[name:])
		if n == 0 || cut > len(before) {
			return e, errIndex
		}
		before, name = before[:len(before)-cut], name+n
	} else {
		before = nil
	}
	n := bytes.IndexByte(b[name:], 0)
	if n < 0 {
		return e, errIndex
	}
	e.path = append(bytes.Clone(before), b[name:name+n]...)
	if e.next = name + n + 1; version < 4 {
		e.next = at + (name+n-at+8)&^7
	}
	if e.next > len(b) {
		return e, errIndex
	}
	return e, nil
}

// offset is a number as git writes it (varint.c), and how many bytes it takes; 0 for none.
func offset(b []byte) (value, size int) {
	for i, c := range b {
		if i > 4 {
			return 0, 0
		}
		if i > 0 {
			value = (value + 1) << 7
		}
		if value += int(c & 127); c&128 == 0 {
			return value, i + 1
		}
	}
	return 0, 0
}

// doubt takes an entry's stat data away, as git does where it is not sure itself
// (ce_smudge_racily_clean_entry): git then compares the content.
func (e entry) doubt(b []byte, size int, d Doubt) {
	if binary.BigEndian.Uint32(b[modeAt:])&0o170000 == gitlink {
		return // a submodule has an index of its own
	}
	changed, marked := d(string(e.path))
	if marked {
		flags := b[statSize+size:]
		binary.BigEndian.PutUint16(flags, binary.BigEndian.Uint16(flags)&^unlooked)
		if e.further {
			binary.BigEndian.PutUint16(flags[2:], binary.BigEndian.Uint16(flags[2:])&^skipped)
		}
	}
	if changed {
		clear(b[:times])
		clear(b[sizeAt:statSize])
	}
}

// kept are the extensions of an index that say nothing of what git need not look at.
func kept(b []byte) ([]byte, error) {
	var out []byte
	for len(b) > 0 {
		if len(b) < 8 {
			return nil, errIndex
		}
		name, n := string(b[:4]), int64(binary.BigEndian.Uint32(b[4:]))
		if n > int64(len(b)-8) {
			return nil, errIndex
		}
		switch {
		case name == "link":
			return nil, errors.New("it is split, and a part of it lies in another file")
		case name == "REUC", name[0] < 'A' || name[0] > 'Z': // without which git reads no index
			out = append(out, b[:8+n]...)
		}
		b = b[8+n:]
	}
	return out, nil
}
