package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Leftovers removes what crashed sessions of this instance left: their containers
// with the engine that each used, found by label, and their sockets. Where no
// session left anything, no engine is asked.
func (d *Driver) Leftovers(ctx context.Context) error {
	entries, err := os.ReadDir(d.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	var dead []string
	for _, e := range entries {
		if !d.answers(ctx, e.Name()) {
			dead = append(dead, e.Name())
		}
	}
	return d.sweepFolders(ctx, dead)
}

// sweepLate removes what an engine made too late for the session that had asked.
// It is tried in each start, which is own; what cannot be swept now is there for
// the next.
func (d *Driver) sweepLate(ctx context.Context, own string) {
	notes, err := filepath.Glob(filepath.Join(d.o.Dir, "*", noteUnsure+"*"))
	if err != nil {
		return
	}
	var late []string
	for _, note := range notes {
		if name := filepath.Base(filepath.Dir(note)); name != own && !slices.Contains(late, name) && !d.answers(ctx, name) {
			late = append(late, name)
		}
	}
	_ = d.sweepFolders(ctx, late) // of this start nothing depends on it
}

// sweepFolders sweeps sessions that are no more, with the engine that each used.
func (d *Driver) sweepFolders(ctx context.Context, folders []string) error {
	dead := map[string][]string{} // folders, by the engine's socket
	for _, name := range folders {
		socket, err := os.ReadFile(filepath.Join(d.o.Dir, name, noteEngine))
		if err != nil {
			socket = []byte(d.o.Socket) // it crashed before its first word to one
		}
		dead[string(socket)] = append(dead[string(socket)], name)
	}
	var errs []error
	for socket, folders := range dead {
		at := &Driver{Options{Socket: socket, Dir: d.o.Dir}, d.within}
		err := at.sweep(ctx, folders)
		for _, name := range folders {
			if err == nil && !d.unsure(name) {
				err = os.RemoveAll(filepath.Join(d.o.Dir, name))
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unsureFor is how long a container may still come to be that no one waits for.
const unsureFor = 10 * time.Minute

// unsure reports whether a session's container was not seen, and may still be made.
func (d *Driver) unsure(folder string) bool {
	notes, err := filepath.Glob(filepath.Join(d.o.Dir, folder, noteUnsure+"*"))
	return err == nil && slices.ContainsFunc(notes, func(note string) bool {
		fi, err := os.Stat(note)
		return err == nil && time.Since(fi.ModTime()) < unsureFor
	})
}

// sweep removes the containers of sessions, by their folders' names.
func (d *Driver) sweep(ctx context.Context, folders []string) error {
	a, err := d.connect(ctx)
	if err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	defer a.Close()
	filters, err := json.Marshal(map[string][]string{"label": {labelInstance + "=" + d.instance()}})
	if err != nil {
		return err
	}
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := a.call(ctx, http.MethodGet, "/containers/json?all=1&filters="+url.QueryEscape(string(filters)), nil,
		&list); err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	gone := map[string]bool{}
	for _, name := range folders {
		gone[name] = true
	}
	var errs []error
	for _, c := range list {
		name := short(c.Labels[labelSession])
		if !gone[name] {
			continue
		}
		known, err := a.removeIfThere(ctx, c.ID)
		if err == nil && known {
			err = os.RemoveAll(filepath.Join(d.o.Dir, name, noteUnsure+c.Labels[labelRole]))
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	return nil
}

// answers reports whether a shim listens in a session's folder, or is about to: the note
// of its engine is the last that is made, before any container; it may be slow until then.
func (d *Driver) answers(ctx context.Context, name string) bool {
	dir := filepath.Join(d.o.Dir, name)
	c, err := dialUnix(ctx, filepath.Join(dir, doorShims))
	if err == nil {
		return c.Close() == nil
	}
	_, err = os.Stat(filepath.Join(dir, noteEngine))
	fi, ferr := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist) && ferr == nil && time.Since(fi.ModTime()) < 30*time.Second
}
