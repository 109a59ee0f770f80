package overlays

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peers keeps a moment of the same project by other means, once each: they take seconds.
func (m *measuring) peers(ctx context.Context) error {
	copied := filepath.Join(m.Dir, "copied")
	err := m.timed("checkpoint, stopped", "cp -a --reflink=auto", func() error {
		return run(ctx, m.Dir, "cp", "-a", "--reflink=auto", m.project, copied)
	})
	if err != nil {
		return err
	}
	if err := m.git(ctx); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	for _, fs := range []struct {
		kind string
		mkfs []string
	}{{"btrfs", []string{"mkfs.btrfs", "-q"}}, {"xfs", []string{"mkfs.xfs", "-q"}}} {
		if _, err := exec.LookPath(fs.mkfs[0]); err != nil {
			continue // its absence shows in the table
		}
		if err := m.shared(ctx, fs.kind, fs.mkfs); err != nil {
			return fmt.Errorf("%s: %w", fs.kind, err)
		}
	}
	return nil
}

func (m *measuring) git(ctx context.Context) error {
	git := func(args ...string) error {
		own := []string{"-c", "user.name=b", "-c", "user.email=b@example.com", "-c", "gc.auto=0"}
		return run(ctx, m.project, "git", append(own, args...)...)
	}
	err := errors.Join(git("init", "-q", "."), git("add", "-A"), git("commit", "-q", "-m", "x"))
	if err == nil {
		err = m.change(m.project, "theirs"+oneText)
	}
	if err != nil {
		return err
	}
	return errors.Join(
		m.timed("diff", "git diff", func() error { return git("diff", "--no-ext-diff", "--output=/dev/null") }),
		m.timed("checkpoint, stopped", "git stash", func() error { return git("stash", "-q", "-u") }),
		m.timed("restore", "git stash pop", func() error { return git("stash", "pop", "-q") }),
		m.timed("a fork", "git worktree add", func() error {
			return git("worktree", "add", "-q", filepath.Join(m.Dir, "tree"))
		}),
	)
}

// shared measures a file system that shares content, on an image of its own.
func (m *measuring) shared(ctx context.Context, kind string, mkfs []string) (err error) {
	image, at := filepath.Join(m.Dir, kind+".image"), filepath.Join(m.Dir, kind)
	f, err := os.OpenFile(image, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(int64(max(1, m.Files/50_000))<<32), f.Close(), os.Mkdir(at, 0o700)); err != nil {
		return err
	}
	if err := run(ctx, m.Dir, mkfs[0], append(mkfs[1:], image)...); err != nil {
		return err
	}
	if err := run(ctx, m.Dir, "mount", "-o", "loop", image, at); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run(context.WithoutCancel(ctx), m.Dir, "umount", at), os.Remove(image)) }()
	project := filepath.Join(at, "project")
	if kind == "btrfs" {
		if err := run(ctx, at, "btrfs", "-q", "subvolume", "create", project); err != nil {
			return err
		}
	}
	if err := m.write(project, m.Files, oneText); err != nil {
		return err
	}
	if err := run(ctx, at, "sync", "-f", at); err != nil {
		return err
	}
	if kind == "btrfs" {
		err := m.timed("checkpoint, stopped", "btrfs snapshot", func() error {
			return run(ctx, at, "btrfs", "-q", "subvolume", "snapshot", project, filepath.Join(at, "snapshot"))
		})
		if err != nil {
			return err
		}
	}
	return m.timed("checkpoint, stopped", "cp -a --reflink, "+kind, func() error {
		return run(ctx, at, "cp", "-a", "--reflink=always", project, filepath.Join(at, "copied"))
	})
}

func run(ctx context.Context, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}
