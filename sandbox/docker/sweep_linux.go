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
	dead := map[string][]string{} // folders, by the engine's socket
	for _, e := range entries {
		if d.answers(ctx, e.Name()) {
			continue
		}
		socket, err := os.ReadFile(filepath.Join(d.o.Dir, e.Name(), noteEngine))
		if err != nil {
			socket = []byte(d.o.Socket) // it crashed before its first word to one
		}
		dead[string(socket)] = append(dead[string(socket)], e.Name())
	}
	var errs []error
	for socket, folders := range dead {
		at := New(Options{Socket: socket, Dir: d.o.Dir})
		err := at.sweep(ctx, folders)
		for _, name := range folders {
			if err == nil {
				err = os.RemoveAll(filepath.Join(d.o.Dir, name))
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// sweep removes the containers of sessions, by their folders' names.
func (d *Driver) sweep(ctx context.Context, folders []string) error {
	a, err := d.connect(ctx)
	if err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	defer a.close()
	filters, err := json.Marshal(map[string][]string{"label": {labelInstance + "=" + d.instance()}})
	if err != nil {
		return err
	}
	var list []struct {
		ID     string `json:"Id"`
		Labels map[string]string
	}
	if err := a.call(ctx, http.MethodGet, "/containers/json?all=1&filters="+url.QueryEscape(string(filters)), nil, &list); err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	gone := map[string]bool{}
	for _, name := range folders {
		gone[name] = true
	}
	var errs []error
	for _, c := range list {
		if gone[short(c.Labels[labelSession])] {
			errs = append(errs, a.remove(ctx, c.ID))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep containers: %w", err)
	}
	return nil
}

// answers tells whether a shim listens in a session's folder.
func (d *Driver) answers(ctx context.Context, name string) bool {
	c, err := dialUnix(ctx, filepath.Join(d.o.Dir, name, doorShims))
	if err != nil {
		return false
	}
	return c.Close() == nil
}
