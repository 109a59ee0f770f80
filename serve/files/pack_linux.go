package files

import (
	"archive/tar"
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
)

// paxXattr begins the records of extended attributes in a tar archive.
const paxXattr = "SCHILY.xattr."

// pack answers with a folder as a tar archive, in chunks, and then how it went.
func (s *server) pack(q request) error {
	c := chunkWriter{s.w}
	archive := tar.NewWriter(c)
	err := filepath.WalkDir(q.Path, func(path string, d fs.DirEntry, err error) error {
		if path == q.Path {
			return err
		}
		if err != nil || d.Type()&(fs.ModeSocket|fs.ModeDevice|fs.ModeNamedPipe|fs.ModeIrregular) != 0 {
			return nil // it vanished, is closed to this user, or means nothing elsewhere
		}
		return packOne(archive, path, strings.TrimPrefix(path, q.Path+"/"))
	})
	if err == nil {
		err = archive.Close()
	}
	if errors.Is(err, syscall.EPIPE) {
		return err
	}
	if err := c.end(); err != nil {
		return err
	}
	if err != nil {
		return writeLine(s.w, refusal(err))
	}
	return writeLine(s.w, answer{})
}

func packOne(archive *tar.Writer, path, name string) error {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil // it vanished
	}
	if fi.Mode().IsRegular() {
		return packFile(archive, path, name)
	}
	target := ""
	if fi.Mode()&fs.ModeSymlink != 0 {
		if target, err = os.Readlink(path); err != nil {
			return nil // it vanished
		}
	}
	return packHead(archive, fi, name, target)
}

func packHead(archive *tar.Writer, fi fs.FileInfo, name, target string) error {
	h, err := tar.FileInfoHeader(fi, target)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.Format = name, 0, 0, "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	return archive.WriteHeader(h)
}

func packFile(archive *tar.Writer, path, name string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil // it vanished, or is closed to this user
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	h, err := tar.FileInfoHeader(fi, "")
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.Format = name, 0, 0, "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime, h.PAXRecords = time.Time{}, time.Time{}, map[string]string{}
	for key, value := range metadata(path) {
		h.PAXRecords[paxXattr+xattrPrefix+key] = value
	}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyN(archive, f, h.Size)
	if errors.Is(err, io.EOF) { // it was cut meanwhile
		_, err = io.CopyN(archive, zeros{}, h.Size-n)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// unpack fills a folder from an archive.
func (s *server) unpack(q request) error {
	from := &chunkReader{r: s.r}
	err := unpackAll(q.Path, from)
	if _, drain := io.Copy(io.Discard, from); drain != nil {
		return drain
	}
	if err != nil {
		return writeLine(s.w, refusal(err))
	}
	return writeLine(s.w, answer{})
}

func unpackAll(dir string, from io.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(from)
	var folders []*tar.Header
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(strings.TrimSuffix(h.Name, "/"))
		switch h.Typeflag {
		case tar.TypeDir:
			h.Name = name
			folders = append(folders, h)
			err = root.MkdirAll(name, 0o700)
		case tar.TypeSymlink:
			_ = root.Remove(name) // what a new home has already
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = unpackFile(root, name, h, archive)
		}
		if err != nil && !errors.Is(err, syscall.EROFS) { // what Cloister itself put there
			return err
		}
	}
	for _, h := range slices.Backward(folders) {
		err := errors.Join(root.Chmod(h.Name, h.FileInfo().Mode().Perm()), root.Chtimes(h.Name, h.ModTime, h.ModTime))
		if err != nil && !errors.Is(err, syscall.EROFS) {
			return err
		}
	}
	return nil
}

func unpackFile(root *os.Root, name string, h *tar.Header, from io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	for key, value := range h.PAXRecords {
		if attr, ok := strings.CutPrefix(key, paxXattr); ok && strings.HasPrefix(attr, xattrPrefix) && err == nil {
			err = unix.Fsetxattr(int(f.Fd()), attr, []byte(value), 0)
		}
	}
	if err == nil {
		err = f.Chmod(h.FileInfo().Mode().Perm())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}
