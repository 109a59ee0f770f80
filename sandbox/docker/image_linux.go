package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/docker/engine"
)

// gateImage is empty: the gate is this program alone, bound into it.
const gateImage = "cloister/gate:1"

// rootImage is the engine's name for a root of the image store.
func rootImage(r sandbox.Root) string {
	return "cloister/root:" + strings.TrimPrefix(r.ID, "sha256:")[:min(16, len(strings.TrimPrefix(r.ID, "sha256:")))]
}

// engineImage is what the engine tells of an image.
type engineImage struct {
	ID           string `json:"Id"`
	Architecture string
	Os           string
	Config       struct {
		Env    []string
		Labels map[string]string
	}
}

// NoImage says that the engine knows no image of that name.
type NoImage struct{ Name string }

func (e *NoImage) Error() string { return fmt.Sprintf("the engine has no image %s", e.Name) }

// NoImage tells it from other errors.
func (*NoImage) NoImage() {}

// Hints are the words of what to do.
func (*NoImage) Hints() []string {
	return []string{"cloister image list shows those that are; cloister image pull fetches one, cloister image build " +
		"makes the base image"}
}

func (a *api) inspect(ctx context.Context, name string) (engineImage, error) {
	var i engineImage
	err := a.call(ctx, http.MethodGet, "/images/"+url.PathEscape(name)+"/json", nil, &i)
	if engine.IsStatus(err, http.StatusNotFound) {
		return i, &NoImage{name}
	}
	return i, err
}

// imageID is the digest of the image to run: a root of the image store is given to
// the engine first, once.
func (d *Driver) imageID(ctx context.Context, a *api, r sandbox.Root) (string, error) {
	switch {
	case r.Dir == "" && r.ID != "":
		return r.ID, nil
	case r.Dir == "":
		if d.o.Image == "" {
			return "", &NoImage{"by which to start"}
		}
		i, err := a.inspect(ctx, d.o.Image)
		return i.ID, err
	}
	if id, err := a.given(ctx, r); err != nil || id != "" {
		return id, err
	}
	return a.load(ctx, r)
}

// given is the engine's image of a root of the store: the one that it was given,
// or that the store was given by it. Empty where it has none.
func (a *api) given(ctx context.Context, r sandbox.Root) (string, error) {
	for _, name := range []string{rootImage(r), r.ID} {
		i, err := a.inspect(ctx, name)
		if err == nil && (i.Config.Labels[labelRoot] == r.ID || i.ID == r.ID && i.Config.Labels[labelBuilt] != "") {
			return i.ID, nil
		}
		var none *NoImage
		if err != nil && !errors.As(err, &none) {
			return "", err
		}
	}
	return "", nil
}

// Find asks the engine for an image by name or digest, and gives what runs it: its
// digest, and the folders of its PATH.
func (d *Driver) Find(ctx context.Context, name string) (sandbox.Root, []string, error) {
	none := sandbox.Root{}
	a, err := d.connect(ctx)
	if err != nil {
		return none, nil, err
	}
	defer a.Close()
	i, err := a.inspect(ctx, name)
	if err != nil {
		return none, nil, err
	}
	if i.Os != "linux" || i.Architecture != runtime.GOARCH {
		return none, nil, otherMachine(name, i.Os, i.Architecture)
	}
	var path []string
	for _, e := range i.Config.Env {
		if list, ok := strings.CutPrefix(e, "PATH="); ok {
			path = strings.Split(list, ":")
		}
	}
	return sandbox.Root{ID: i.ID}, path, nil
}

// Give hands a root of the image store to the engine, where it has it not yet.
// That takes as long as the image is large, so it is done before a start.
func (d *Driver) Give(ctx context.Context, r sandbox.Root, say func(string)) error {
	a, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	if id, err := a.given(ctx, r); err != nil || id != "" {
		return err
	}
	say("giving the image to the engine")
	_, err = a.load(ctx, r)
	return err
}

// load imports a root as an image of one layer without anything to be obeyed.
func (a *api) load(ctx context.Context, r sandbox.Root) (string, error) {
	read, write := io.Pipe()
	go func() { write.CloseWithError(writeTar(ctx, write, string(r.Dir))) }()
	defer func() { _ = read.Close() }() // ends the writer, should it still write
	id, err := a.importTar(ctx, read, rootImage(r), "LABEL "+labelRoot+"="+r.ID)
	if err != nil {
		return "", fmt.Errorf("give the image to the engine: %w", err)
	}
	return id, nil
}

// importTar makes an image of a file system. The answer is a stream of words, the
// last of which is the digest or an error.
func (a *api) importTar(ctx context.Context, r io.Reader, name string, changes ...string) (string, error) {
	// The tag stands in repo: Podman looks at no other.
	q := url.Values{"fromSrc": {"-"}, "repo": {name}, "changes": changes}
	resp, err := a.Do(ctx, http.MethodPost, "/"+a.version+"/images/create?"+q.Encode(), r, "application/x-tar")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		return "", a.Read(ctx, resp, nil)
	}
	id := ""
	for words := json.NewDecoder(io.LimitReader(resp.Body, engine.MaxAnswer)); ; {
		var word struct{ Status, Error string }
		if err := words.Decode(&word); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", a.Explain(ctx, err)
		}
		if word.Error != "" {
			return "", errors.New(word.Error)
		}
		id = word.Status
	}
	if !strings.HasPrefix(id, "sha256:") {
		return "", a.NotAnEngine(fmt.Sprintf("it imported an image as %q", id))
	}
	return id, nil
}

// writeTar packs a root. Every file is root's: inside, the command is someone
// else, and may change none of them.
func writeTar(ctx context.Context, w io.Writer, root string) error {
	t := tar.NewWriter(w)
	linked := map[[2]uint64]string{} // files with several names, by device and inode
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || path == root {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		link := ""
		switch {
		case fi.Mode()&fs.ModeSymlink != 0:
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		case !fi.IsDir() && !fi.Mode().IsRegular():
			return nil // the store has none
		}
		h, err := tar.FileInfoHeader(fi, link)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		h.Name, h.Uid, h.Gid, h.Uname, h.Gname, h.Format = name, 0, 0, "", "", tar.FormatPAX
		h.Mode &= 0o777
		if fi.IsDir() {
			h.Name += "/"
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && fi.Mode().IsRegular() && st.Nlink > 1 {
			at := [2]uint64{st.Dev, st.Ino}
			if first := linked[at]; first != "" {
				h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			} else {
				linked[at] = name
			}
		}
		if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(t, f)
		return err
	})
	return errors.Join(err, t.Close())
}

// createGate creates the gate's container, and its image where it is missing.
func (a *api) createGate(ctx context.Context, s sandbox.Spec, body object) (string, error) {
	id, err := a.create(ctx, s, "gate", body)
	if !engine.IsStatus(err, http.StatusNotFound) {
		return id, err
	}
	var empty bytes.Buffer
	t := tar.NewWriter(&empty)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: ".cloister/", Mode: 0o755}); err != nil {
		return "", err
	}
	if err := t.Close(); err != nil {
		return "", err
	}
	if _, err := a.importTar(ctx, &empty, gateImage); err != nil {
		return "", fmt.Errorf("make the gate's image: %w", err)
	}
	return a.create(ctx, s, "gate", body)
}
