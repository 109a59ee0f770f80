package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/state/archive"
)

// Export writes a checkpoint into one file, with the private home unless withHome is false.
func (w *Workspace) Export(out io.Writer, id string, withHome bool) error {
	c, err := w.Checkpoint(id)
	if err == nil {
		err = w.verify(c)
	}
	if err != nil {
		return err
	}
	head := archive.Head{Name: w.Name, Project: w.Project, Agent: w.Agent, Message: c.Message, Time: c.Time}
	if err := archive.Write(out, head, w.store.in(), c.Layers, withHome); err != nil {
		return fmt.Errorf("export checkpoint %s: %w", c.ID, err)
	}
	return nil
}

// Import makes a workspace over a project of what Export wrote. The archive is not
// believed: see package archive. sealed is notified of the checkpoint before it counts. It
// gives the project that the archive was made of.
func (s *Store) Import(
	ctx context.Context, in io.Reader, name, project string, sealed func(Checkpoint) error,
) (Checkpoint, string, error) {
	if !validName(name) {
		return Checkpoint{}, "", fmt.Errorf("import %q: not a name", name)
	}
	if s.Has(name) {
		return Checkpoint{}, "", fmt.Errorf("import: there is a workspace %s", name)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return Checkpoint{}, "", fmt.Errorf("import: %w", err)
	}
	// Against a collection of layers that nothing names yet.
	shared, err := lockFile(filepath.Join(s.dir, lockName), unix.LOCK_SH)
	if err != nil {
		return Checkpoint{}, "", err
	}
	defer func() { _ = shared.Close() }()
	if err := s.room("import", nil, project, 0); err != nil {
		return Checkpoint{}, "", err
	}
	most, err := s.left(project)
	if err != nil {
		return Checkpoint{}, "", err
	}
	head, made, err := archive.Read(ctx, in, s.in(), newID, most)
	if err != nil {
		return Checkpoint{}, "", fmt.Errorf("import: %w", err)
	}
	c := Checkpoint{ID: newID(), Time: time.Now().UTC(), Message: clip(head.Message), Layers: slices.Clone(made)}
	if len(c.Layers) > 0 {
		c.ID = c.Layers[0]
	}
	if err := s.imported(&c, head.Agent, name, project, sealed); err != nil {
		return Checkpoint{}, "", errors.Join(fmt.Errorf("import: %w", err), archive.Remove(s.in(), made))
	}
	return c, head.Project, nil
}

// imported describes a workspace that stands on a checkpoint which was imported.
func (s *Store) imported(c *Checkpoint, agent, name, project string, sealed func(Checkpoint) error) error {
	m, err := s.describe(name, project)
	if err == nil {
		err = os.Mkdir(s.folder(name), 0o700)
	}
	if err != nil {
		return err
	}
	w := &Workspace{meta: m, store: s, Sealed: sealed}
	w.Layers = c.Layers
	if agentName(agent) {
		w.Agent = agent
	}
	if w.Sums, err = w.seal(c); err == nil {
		err = sealed(*c)
	}
	if err == nil {
		w.Checkpoints, w.Head = []Checkpoint{*c}, c.ID
		err = w.save()
	}
	if err != nil && !s.Has(name) {
		err = errors.Join(err, os.RemoveAll(s.folder(name)))
	}
	return err
}

// agentName reports whether a word can be the name of an agent: fork starts it.
func agentName(word string) bool {
	return word != "" && len(word) < 64 && !strings.HasPrefix(word, "-") &&
		!strings.ContainsFunc(word, func(r rune) bool {
			return !(r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z')
		})
}

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 1000)], "?") }
