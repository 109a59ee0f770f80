package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/docker/definition"
	"cloister/sandbox/docker/engine"
)

// labelBuilt marks the images that are built here, by what they were called.
const labelBuilt = "cloister.built"

// IsBuildsOwn reports whether a name beside a definition is the build's own.
func IsBuildsOwn(name string) bool {
	return name == definition.File || name == definition.AuthoritiesFile || name == ".dockerignore"
}

// FailedBuild says that a step of a build failed; its output was told.
type FailedBuild struct{ err error }

func (e *FailedBuild) Error() string { return "build: " + strings.TrimSpace(e.err.Error()) }

func (e *FailedBuild) Unwrap() error { return e.err }

// layers are all images that the engine has, those without a name too.
func (a *api) layers(ctx context.Context) (map[string]bool, error) {
	var list []struct {
		ID string `json:"Id"`
	}
	if err := a.call(ctx, http.MethodGet, "/images/json?all=1", nil, &list); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, i := range list {
		out[i.ID] = true
	}
	return out, nil
}

// forget removes the layers that a failed build made, the last first. They were
// read from what its steps said, and a step can say anything: what was there
// before, or has a name, stays.
func (a *api) forget(ctx context.Context, made []string, before map[string]bool) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, short := range slices.Backward(made) {
		var i struct {
			ID       string `json:"Id"`
			RepoTags []string
		}
		err := a.call(ctx, http.MethodGet, "/images/"+short+"/json", nil, &i)
		if err == nil && !before[i.ID] && len(i.RepoTags) == 0 {
			err = a.call(ctx, http.MethodDelete, "/images/"+i.ID+"?noprune=1", nil, nil)
		}
		if err != nil && !engine.IsStatus(err, http.StatusNotFound) && !engine.IsStatus(err, http.StatusConflict) {
			errs = append(errs, fmt.Errorf("remove what a failed build made: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Labels are what an image of the engine says of itself.
func (d *Driver) Labels(ctx context.Context, id string) (map[string]string, error) {
	a, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	i, err := a.inspect(ctx, id)
	return i.Config.Labels, err
}

// Export gives an image of the engine as an archive.
func (d *Driver) Export(ctx context.Context, id string) (io.ReadCloser, error) {
	a, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := a.Do(ctx, http.MethodGet, "/"+a.version+"/images/"+url.PathEscape(id)+"/get", nil, "")
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = errors.Join(a.Read(ctx, resp, nil), resp.Body.Close())
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("take the image from the engine: %w", err)
	}
	return resp.Body, nil
}

// Forget takes an image that the store no longer has from the engine, where it was
// built here or given by the store. It reports whether there was one.
func (d *Driver) Forget(ctx context.Context, r sandbox.Root, names []string) (bool, error) {
	a, err := d.connect(ctx)
	if err != nil {
		return false, err
	}
	defer a.Close()
	found := false
	for _, name := range append([]string{rootImage(r)}, names...) {
		i, err := a.inspect(ctx, name)
		if _, missing := errors.AsType[*NoImage](err); missing {
			continue
		}
		if err != nil {
			return found, err
		}
		if i.Config.Labels[labelRoot] != r.ID && (i.ID != r.ID || i.Config.Labels[labelBuilt] == "") {
			continue // the person's own, of the same name
		}
		if err := a.call(ctx, http.MethodDelete, "/images/"+url.PathEscape(name), nil, nil); err != nil {
			return found, fmt.Errorf("remove %s from the engine: %w", name, err)
		}
		found = true
	}
	return found, nil
}

// ForgetBuilt removes every image that was built here, every one of a root file system
// that the engine was given, and the gate's. It counts those that stay, since a
// container that is not this instance's uses them.
func (d *Driver) ForgetBuilt(ctx context.Context) (used int, err error) {
	a, err := d.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	paths := []string{url.PathEscape(gateImage)} // its name goes where nothing uses it
	for _, label := range []string{labelBuilt, labelRoot} {
		var list []struct {
			ID string `json:"Id"`
		}
		filter := url.QueryEscape(`{"label":["` + label + `"]}`)
		if err := a.call(ctx, http.MethodGet, "/images/json?all=1&filters="+filter, nil, &list); err != nil {
			return 0, fmt.Errorf("list the engine's images: %w", err)
		}
		for _, i := range list {
			paths = append(paths, i.ID+"?force=1")
		}
	}
	for _, path := range paths {
		err := a.call(ctx, http.MethodDelete, "/images/"+path, nil, nil)
		switch {
		case engine.IsStatus(err, http.StatusConflict):
			used++
		case err != nil && !engine.IsStatus(err, http.StatusNotFound):
			return used, fmt.Errorf("remove an image from the engine: %w", err)
		}
	}
	return used, nil
}
