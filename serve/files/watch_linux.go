package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxWatches bounds the folders of one recursive watch.
const maxWatches = 4096

const watched = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB

// watch answers with events until the program is ended: it does nothing else any more.
func (s *server) watch(q request) error {
	if real, err := filepath.EvalSymlinks(q.Path); err == nil {
		q.Path = real
	}
	fi, err := os.Stat(q.Path)
	if err == nil && !fi.IsDir() {
		err = &Error{Invalid, "path " + q.Path + " is not a directory"}
	}
	if err != nil {
		return writeLine(s.w, refusal(err))
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return writeLine(s.w, refusal(err))
	}
	w := &watcher{server: s, q: q, fd: fd, at: map[int32]string{}}
	if err := w.add(q.Path, true); err != nil {
		return writeLine(s.w, refusal(err))
	}
	if err := writeLine(s.w, answer{}); err != nil {
		return err
	}
	return w.run()
}

type watcher struct {
	*server
	q  request
	fd int
	at map[int32]string // the folder of each watch
}

// add watches a folder and, where that was asked, all below it.
func (w *watcher) add(dir string, top bool) error {
	if len(w.at) >= maxWatches {
		return &Error{TooMuch, fmt.Sprintf("more than %d folders to watch", maxWatches)}
	}
	wd, err := unix.InotifyAddWatch(w.fd, dir, watched|unix.IN_ONLYDIR|unix.IN_DONT_FOLLOW)
	if err != nil {
		if !top && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENOTDIR)) {
			return nil
		}
		return fmt.Errorf("watch %s: %w", dir, err)
	}
	w.at[int32(wd)] = dir
	if !w.q.Recursive {
		return nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil // it vanished, or is closed to this user
	}
	for _, d := range list {
		if d.IsDir() {
			if err := w.add(filepath.Join(dir, d.Name()), false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watcher) run() error {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return fmt.Errorf("read events: %w", err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:size], []byte{0})
			b = b[size:]
			if err := w.report(wd, mask, string(name)); err != nil {
				return err
			}
		}
	}
}

func (w *watcher) report(wd int32, mask uint32, name string) error {
	dir, known := w.at[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(w.at, wd)
		return nil
	}
	if !known || name == "" {
		return nil
	}
	full := filepath.Join(dir, name)
	if mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 && w.q.Recursive {
		if err := w.add(full, false); err != nil {
			return err
		}
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(full, w.q.Path), "/")
	for _, c := range []struct {
		bit    uint32
		change Change
	}{
		{unix.IN_CREATE | unix.IN_MOVED_TO, Created}, {unix.IN_MODIFY, Written}, {unix.IN_DELETE, Removed},
		{unix.IN_MOVED_FROM, Renamed}, {unix.IN_ATTRIB, Chmod},
	} {
		if mask&c.bit == 0 {
			continue
		}
		e := &Event{Name: rel, Change: c.change}
		if w.q.Entry && c.change != Removed && c.change != Renamed {
			e.Entry, _ = w.entry(full) // it may have vanished
		}
		if err := writeLine(w.w, answer{Event: e}); err != nil {
			return err
		}
	}
	return nil
}
