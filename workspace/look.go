package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"cloister/host/resolve"
	"cloister/workspace/hostgit"
)

// maxLook bounds a file that a person is shown, in bytes.
const maxLook = 256 << 10

// Look reads a file of a project for a person's eyes: a regular one, below root
// whatever links say, and no more of it than a person looks at.
func Look(root, rel string) ([]byte, error) {
	dir, err := resolve.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", rel, err)
	}
	defer dir.Close()
	f, err := dir.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", rel, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", rel, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("look at %s: it is no regular file", rel)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLook+1))
	if err == nil && len(text) > maxLook {
		text, err = text[:maxLook], fmt.Errorf("only the first %d bytes of %d are shown", maxLook, info.Size())
	}
	return text, err
}

// Committed is a file of a project as its last commit has it. git is called as
// for worktrees: nothing that the repository configures is run.
func Committed(ctx context.Context, host *resolve.Resolver, root, rel string) ([]byte, error) {
	if !filepath.IsLocal(rel) {
		return nil, errors.New("git: not a path of the project")
	}
	p, err := Find(root)
	if err != nil {
		return nil, err
	}
	if p.Git == nil {
		return nil, errors.New("the project is no git repository")
	}
	h, err := hostgit.Open(ctx, host, hostgit.Folders{Common: p.Git.Common, Dir: p.Git.Dir, Tree: string(p.Root)})
	if err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, "cat-file", "blob", "HEAD:"+filepath.ToSlash(rel))
	if err != nil {
		return nil, err
	}
	return []byte(out[:min(len(out), maxLook)]), nil
}

// Sound refuses a project in which git of the host would write through a link that leads out of its repository, or
// wait at a pipe: a cloister that had its files may have made either.
func Sound(ctx context.Context, host *resolve.Resolver, root string) error {
	p, err := Find(root)
	if err != nil {
		return err
	}
	at := hostgit.Folders{Common: root, Dir: root} // of a bare one
	if p.Git != nil && string(p.Root) == root {
		at = hostgit.Folders{Common: p.Git.Common, Dir: p.Git.Common}
	}
	_, err = hostgit.Open(ctx, host, at)
	return err
}
