package forked

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// bare is runsc, called by root without network.
type bare struct {
	o    Options
	dir  string
	kept int
	made int
}

func (o Options) bare(ctx context.Context, dir string) (way, error) {
	b := &bare{o: o, dir: dir}
	if err := b.bundle("parent"); err != nil {
		return nil, err
	}
	if err := b.runsc(ctx, "run", "--detach", "--bundle="+filepath.Join(dir, "parent"), "parent"); err != nil {
		return nil, err
	}
	return b, until(ctx, func() bool {
		_, err := os.Stat(filepath.Join(dir, "parent", "work", "up"))
		return err == nil
	})
}

// bundle makes a container's folder: the host's programs, and a folder of its own.
func (b *bare) bundle(name string) error {
	dir := filepath.Join(b.dir, name)
	for _, sub := range []string{"root/usr", "root/work", "root/proc"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	for _, link := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink(filepath.Join("usr", link), filepath.Join(dir, "root", link)); err != nil {
			return err
		}
	}
	if err := written(filepath.Join(dir, "work")); err != nil {
		return err
	}
	text, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{"args": []string{"/usr/bin/python3", "holds.py"}, "cwd": "/work", "env": []string{"PATH=/usr/bin:/bin"},
			"user": map[string]int{"uid": 0, "gid": 0}},
		"root": map[string]any{"path": "root", "readonly": true},
		"mounts": []map[string]any{
			{"destination": "/proc", "type": "proc", "source": "proc"},
			{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"}},
			{"destination": "/work", "type": "bind", "source": filepath.Join(dir, "work"), "options": []string{"rbind", "rw"}},
		},
		"linux": map[string]any{"namespaces": []map[string]string{{"type": "pid"}, {"type": "mount"}, {"type": "network"}}},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
}

func (b *bare) runsc(ctx context.Context, words ...string) error {
	// A sandbox that goes on keeps the descriptors of who made it.
	const apart = `exec "$@" </dev/null >/dev/null 2>>"$0"`
	log := filepath.Join(b.dir, "log")
	_, err := b.o.Said(ctx, "sh", append([]string{"-c", apart, log, b.o.Runsc, "--network=none", "--ignore-cgroups", "--root=" + filepath.Join(b.dir, "state")}, words...)...)
	if text, readErr := os.ReadFile(log); err != nil && readErr == nil {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

func (b *bare) keep(ctx context.Context) (string, error) {
	b.kept++
	image := filepath.Join(b.dir, fmt.Sprintf("image%d", b.kept))
	if err := os.MkdirAll(image, 0o700); err != nil {
		return "", err
	}
	err := b.runsc(ctx, "checkpoint", "--image-path="+image, "--compression=none", "--leave-running", "parent")
	return image, err
}

func (b *bare) fork(ctx context.Context, of string, count int) ([]string, error) {
	var names []string
	for range count {
		b.made++
		names = append(names, fmt.Sprintf("fork%04d", b.made)) // one name must not begin with another
		if err := b.bundle(names[len(names)-1]); err != nil {
			return nil, err
		}
	}
	var group errgroup.Group
	for _, n := range names {
		group.Go(func() error {
			return b.runsc(ctx, "restore", "--detach", "--background", "--image-path="+of, "--bundle="+filepath.Join(b.dir, n), n)
		})
	}
	return names, group.Wait()
}

func (b *bare) gaps(_ context.Context, name string) (string, error) {
	if name == "" {
		name = "parent"
	}
	text, err := os.ReadFile(filepath.Join(b.dir, name, "work", "gaps"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return string(text), err
}

func (b *bare) end(ctx context.Context, names []string) error {
	for _, n := range names {
		if err := b.runsc(ctx, "delete", "--force", n); err != nil {
			return err
		}
	}
	return nil
}

func (b *bare) close(ctx context.Context) error {
	err := b.end(ctx, []string{"parent"})
	// runsc keeps an empty network namespace there for the next of its containers.
	_, _ = b.o.Said(ctx, "umount", filepath.Join(b.dir, "state", "null-netns"))
	return err
}
