package snapshots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"cloister/internal/durable"
)

// folder has a tenant's snapshots on this host, each with a folder of its own.
type folder string

func (f folder) at(id, name string) string { return filepath.Join(string(f), id, name) }

// The files of one snapshot: its stream, and what says that it is whole.
const (
	filesName = "files.tar"
	saidName  = "snapshot.json"
)

func (f folder) keep(s Snapshot, pack Pack) error {
	if err := os.MkdirAll(f.at(s.ID, ""), 0o700); err != nil {
		return fmt.Errorf("make snapshot: %w", err)
	}
	err := create(f.at(s.ID, filesName), pack)
	if err == nil {
		var text []byte
		if text, err = json.MarshalIndent(s, "", "  "); err == nil {
			err = durable.WriteFile(f.at(s.ID, saidName), append(text, '\n'), 0o600)
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make snapshot: %w", err), os.RemoveAll(f.at(s.ID, "")))
	}
	return nil
}

// create writes a file that did not exist.
func create(path string, write Pack) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = write(&limited{f, Most})
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (f folder) sweep() error {
	dirs, err := filepath.Glob(f.at(prefix+"*", ""))
	for _, dir := range dirs {
		if _, serr := os.Lstat(filepath.Join(dir, saidName)); errors.Is(serr, os.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err != nil {
		return fmt.Errorf("remove unfinished snapshots: %w", err)
	}
	return nil
}

func (f folder) list() ([]Snapshot, error) {
	names, err := filepath.Glob(f.at("*", saidName))
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, name := range names {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was removed meanwhile
		}
		var s Snapshot
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		out = append(out, s)
	}
	return out, nil
}

func (f folder) open(id string) (io.ReadCloser, error) {
	file, err := os.Open(f.at(id, filesName))
	if err != nil {
		return nil, fmt.Errorf("begin with a snapshot: %w", err)
	}
	return file, nil
}

func (f folder) remove(id string) error {
	if err := os.RemoveAll(f.at(id, "")); err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	return nil
}
