//go:build cloister_cluster

package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// TestClusterSuite is the suite of drivers, on pods whose image has this host's programs.
func TestClusterSuite(t *testing.T) {
	c := begin(t)
	c.level.Image = c.imageOf("cloister.test/suite:1", system.Make(t))
	sandboxtest.RunAtOnce(t, func() sandbox.Driver { return c.driver() },
		sandboxtest.GateAlways, sandboxtest.StatusOfShell, sandboxtest.Attendants, sandboxtest.PipesBothWays,
		sandboxtest.InputOnce)
	t.Cleanup(func() { // when its cases have ended
		if left := c.pods(); left != "" {
			t.Errorf("left: %s", left)
		}
	})
}

// imageOf gives the node an image of what a folder has, with folders for everybody.
func (c *cluster) imageOf(as, root string) string {
	c.t.Helper()
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		to := ""
		if d.Type() == fs.ModeSymlink {
			if to, err = os.Readlink(path); err != nil {
				return err
			}
		}
		h, err := tar.FileInfoHeader(info, to)
		if err != nil {
			return err
		}
		if h.Name, err = filepath.Rel(root, path); err != nil {
			return err
		}
		h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
		if h.Name == "tmp" {
			h.Mode = 0o1777
		}
		if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, f)
		return errors.Join(err, f.Close())
	})
	for _, dir := range []string{"var/tmp/"} {
		err = errors.Join(err, out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o1777}))
	}
	file := filepath.Join(c.t.TempDir(), "image.tar")
	if err := errors.Join(err, out.Close(), writeImage(file, as, layer.Bytes())); err != nil {
		c.t.Fatal(err)
	}
	c.ctr("images", "import", file)
	return as
}
