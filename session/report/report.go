// Package report writes what --report asks for: a run, summed up as JSON.
//
// The promise: the place is found before the command runs, and no link that the command puts
// there afterwards is followed. A report that no one asked for is nil, and writes nothing.
//
// It counts nothing: the session's result says it all.
//
// Most readers want [Open].
package report

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/session"
)

// summary is the document.
type summary struct {
	Name           string   `json:"name"`
	ExitStatus     int      `json:"exit_status"`
	DurationMS     int64    `json:"duration_ms"`
	Allowed        int      `json:"allowed"`
	Asked          int      `json:"asked"`
	Denied         int      `json:"denied"`
	AutorunChanged []string `json:"autorun_changed"`
}

// A File is where --report writes when the run is over: a name in the folder that
// was there when it began, or a file that was opened then. The folder may be the
// project, where the payload can put a link at the name, or move the folder and
// put a link there: neither is followed, and what it wrote itself is replaced.
type File struct {
	dir  *os.Root
	name string
	file *os.File // a pipe, a device, or a file in a folder that nothing inside can write to
}

// Open finds the place before the command runs. Without a path there is no
// report.
func Open(path string) (*File, error) {
	if path == "" {
		return nil, nil // none was asked for, and a nil report writes nothing
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(full)
	fi, err := os.Lstat(full) // a link may be an earlier payload's: it is replaced
	own := strings.HasPrefix(full, "/dev/") || strings.HasPrefix(full, "/proc/")
	if own || err == nil && !fi.Mode().IsRegular() && fi.Mode()&fs.ModeSymlink == 0 ||
		unix.Access(folder, unix.W_OK) != nil {
		// A pipe that no one reads is an error, and not waited for.
		f, err := os.OpenFile(full, os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o644)
		if err != nil {
			return nil, err
		}
		return &File{file: f}, nil
	}
	dir, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	return &File{dir: dir, name: filepath.Base(full)}, nil
}

// Write writes the report of a run that is over.
func (r *File) Write(res session.Result, status int) error {
	if r == nil {
		return nil
	}
	changed := append(append([]string{}, res.Autorun...), res.Summary.Brought...)
	text, err := json.MarshalIndent(summary{
		Name: res.Name, ExitStatus: status, DurationMS: res.Duration.Milliseconds(),
		Allowed: res.Summary.Allowed, Asked: res.Summary.Asked, Denied: res.Summary.Denied, AutorunChanged: changed,
	}, "", "  ")
	if err == nil {
		err = r.put(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *File) put(text []byte) error {
	if r.file != nil {
		if err := r.file.Truncate(0); err != nil && !errors.Is(err, unix.EINVAL) { // a pipe has no length
			return errors.Join(err, r.file.Close())
		}
		_, err := r.file.Write(text)
		return errors.Join(err, r.file.Close())
	}
	defer r.dir.Close()
	// A name that no one can have put a link at, and then the name itself: a rename
	// replaces a link, and follows none.
	fresh := "." + r.name + "." + rand.Text()[:8]
	f, err := r.dir.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there", fresh)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = r.dir.Rename(fresh, r.name)
	}
	if err != nil {
		return errors.Join(err, r.dir.Remove(fresh))
	}
	return nil
}
