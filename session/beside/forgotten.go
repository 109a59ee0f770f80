package beside

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
	"cloister/internal/ownfile"
	"cloister/workspace/homes"
)

// noteOf is the file that says whose services a folder is for.
func noteOf(folder string) string { return filepath.Join(folder, "project") }

// note says whose services these are, for [Forgotten].
func (p *Plan) note() error {
	if _, err := os.Lstat(noteOf(p.folder)); err == nil {
		return nil
	}
	if err := durable.WriteFile(noteOf(p.folder), []byte(p.o.Project+"\n"), 0o600); err != nil {
		return fmt.Errorf("start services: %w", err)
	}
	return nil
}

// Gone is what is kept for the services of a project that is no more: their volumes.
type Gone struct {
	Project string
	folder  string
	home    homes.Home
}

// Forgotten finds what is kept for services of projects that are gone and that do not run.
func Forgotten(data string) ([]Gone, error) {
	dir := filepath.Join(data, "compose")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for services of projects that are gone: %w", err)
	}
	var out []Gone
	for _, e := range entries {
		folder := filepath.Join(dir, e.Name())
		text, err := ownfile.Read(noteOf(folder), 8<<10)
		project := strings.TrimSuffix(string(text), "\n")
		if err != nil || !filepath.IsAbs(project) {
			continue // whose they are is not known
		}
		if _, err := os.Lstat(project); !errors.Is(err, fs.ErrNotExist) || held(folder) {
			continue
		}
		out = append(out, Gone{project, folder, homes.Home{Dir: homes.Of(data, folder), Project: folder}})
	}
	return out, nil
}

// held reports whether the services of a folder run now.
func held(folder string) bool {
	f, err := ownfile.Open(filepath.Join(folder, "lock"))
	if err != nil {
		return false
	}
	defer f.Close() // lets go of the lock
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// Bytes is what it takes on disk.
func (g Gone) Bytes() int64 { return homes.Size(g.home.Dir) }

// Remove removes it.
func (g Gone) Remove() error {
	return errors.Join(g.home.Remove(), os.RemoveAll(g.folder))
}
