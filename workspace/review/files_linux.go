package review

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
	"cloister/internal/ownfile"
)

// parent opens the folder of a path, and no link on the way is followed.
func parent(root, path string) (dir int, name string, err error) {
	if filepath.IsAbs(path) {
		root, path = "/", strings.TrimPrefix(filepath.Clean(path), "/")
	}
	if !filepath.IsLocal(path) || path == "." {
		return -1, "", errors.New("not a path of the project")
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(top)
	dir, err = unix.Openat2(top, filepath.Dir(path), &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	return dir, filepath.Base(path), err
}

// inspect is what lies at a path, with the first bytes of it, at most so many.
func inspect(root, path string, most int64) (Thing, []byte, error) {
	dir, name, err := parent(root, path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return Thing{Kind: Nothing}, nil, nil
	}
	if err != nil {
		return Thing{}, nil, err
	}
	defer unix.Close(dir)
	t, text, _, err := inspectAt(dir, name, most)
	return t, text, err
}

// inspectAt also gives when the thing was changed last, by a clock that no payload sets.
func inspectAt(dir int, name string, most int64) (t Thing, text []byte, changed time.Time, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return Thing{Kind: Nothing}, nil, changed, nil
		}
		return t, nil, changed, err
	}
	t.Mode = fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return t, nil, changed, err
		}
		t.Kind, t.Digest, t.Size, t.Mode = Link, sum(buf[:n]), int64(n), 0
		return t, buf[:n], time.Unix(st.Ctim.Unix()), nil
	case unix.S_IFREG:
	default:
		t.Kind = Other
		return t, nil, changed, nil
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return t, nil, changed, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	h := sha256.New()
	head := &capped{most: most}
	n, err := io.Copy(io.MultiWriter(h, head), f)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil {
		return t, nil, changed, err
	}
	t.Kind, t.Digest, t.Size, t.Mode = File, hex.EncodeToString(h.Sum(nil)), n, fs.FileMode(st.Mode&0o777)
	return t, head.text, time.Unix(st.Ctim.Unix()), nil
}

// capped keeps the first bytes.
type capped struct {
	text []byte
	most int64
}

func (c *capped) Write(p []byte) (int, error) {
	c.text = append(c.text, p[:min(int64(len(p)), c.most-int64(len(c.text)))]...)
	return len(p), nil
}

func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}

func (s Store) blob(digest string) string {
	if _, err := hex.DecodeString(digest); err != nil || len(digest) != 2*sha256.Size {
		return filepath.Join(s.Dir, "copies", "none") // it is no name of a copy
	}
	return filepath.Join(s.Dir, "copies", digest)
}

// Bounds of what is copied of a project before a session changes it.
const (
	maxCopy  = 1 << 20
	maxFiles = 20_000
	maxAll   = 64 << 20
)

// Copy copies what lies at these paths unless it was changed since a time: what it
// holds then may be the session's own. It gives what is copied, and whether nothing
// was left out for its size.
func (s Store) Copy(root string, paths []string, since time.Time) (out map[string]Thing, whole bool) {
	out, whole = map[string]Thing{}, true
	if len(paths) == 0 || os.MkdirAll(filepath.Join(s.Dir, "copies"), 0o700) != nil {
		return out, len(paths) == 0
	}
	var all int64
	for i, path := range paths {
		if i == maxFiles || all > maxAll {
			return out, false
		}
		dir, name, err := parent(root, path)
		if err != nil {
			whole = false
			continue
		}
		t, text, changed, err := inspectAt(dir, name, maxCopy+1)
		unix.Close(dir)
		if err != nil || t.Kind == Nothing || t.Kind == Other || t.Size > maxCopy || !changed.Before(since) {
			whole = whole && err == nil && t.Kind == Nothing
			continue
		}
		if _, err := os.Lstat(s.blob(t.Digest)); err != nil {
			if err := durable.WriteFile(s.blob(t.Digest), text, 0o600); err != nil {
				return out, false
			}
		}
		all += t.Size
		out[path] = t
	}
	return out, whole
}

// restore puts back what lay at a path. What lies there is copied first, where it is
// not too large.
func (s Store) restore(root, path string, is Thing, before *Thing) error {
	dir, name, err := parent(root, path)
	if err != nil {
		if errors.Is(err, unix.ENOENT) && (before == nil || before.Kind == Nothing) {
			return nil
		}
		return err
	}
	defer unix.Close(dir)
	if is.Kind == Other {
		return errors.New("it is neither a file nor a link: look at it, and put it right yourself")
	}
	if before == nil || before.Kind == Nothing {
		err := unix.Unlinkat(dir, name, 0)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	text, err := ownfile.Read(s.blob(before.Digest), maxCopied)
	if err != nil {
		return err
	}
	if sum(text) != before.Digest {
		return errors.New("the copy of what it held is damaged")
	}
	fresh := ".cloister-" + rand.Text()[:12]
	if before.Kind == Link {
		if err := unix.Symlinkat(string(text), dir, fresh); err != nil {
			return err
		}
	} else if err := fill(dir, fresh, text, before.Mode); err != nil {
		return err
	}
	if err := unix.Renameat(dir, fresh, dir, name); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, fresh, 0))
	}
	return nil
}

func fill(dir int, name string, text []byte, mode fs.FileMode) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

// held takes the lock of a file, unless another process has it.
func held(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}
