// Package overlays measures checkpoints, diffs, forks and applies of an overlay workspace
// beside what else keeps a moment of a folder: git, a copy, and file systems that share.
//
// The promise: each figure is of the store that the product uses, called as its commands
// call it, in a folder that is removed at the end. What a command needs besides, its own
// start and the record of the guardian, is not in it.
//
// The call most readers want is [Measure].
package overlays

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"cloister/state/store"
)

// Options are what is measured.
type Options struct {
	Dir     string // everything is made in it, and removed
	Files   int    // of the project
	Changed int    // of them
	Rounds  int
	Peers   bool
	Views   bool // forks are mounted, which only root can here
	// Add takes a figure.
	Add func(subject, contender, unit string, value float64)

	keep bool // what was made is removed by the caller
}

const (
	ours    = "cloister"
	perDir  = 50
	oneText = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n"
)

// The project that the budgets are for.
const (
	Files   = 50_000
	Changed = 200
)

// Size is one project, and how often it is measured.
type Size struct{ Files, Changed, Rounds int }

// Sizes are the project of the budgets, first, and the curves over files and over changes.
func Sizes() []Size {
	return []Size{
		{Files, Changed, 9},
		{1000, Changed, 5},
		{10_000, Changed, 5},
		{200_000, Changed, 5},
		{Million, Changed, 5},
		{Files, 20, 5},
		{Files, 2000, 5},
		{Files, 20_000, 3},
	}
}

// Million is the size that takes minutes to make, and is measured by a word alone.
const Million = 1_000_000

// All measures projects of these sizes. The project of the budgets stands beside its peers.
// Nothing is removed before the end: file systems are slow for minutes where much was.
func All(ctx context.Context, o Options, sizes []Size) (err error) {
	top := o.Dir
	defer func() { err = errors.Join(err, os.RemoveAll(top)) }()
	for _, s := range sizes {
		o.Dir, o.keep = filepath.Join(top, fmt.Sprintf("%d-%d", s.Files, s.Changed)), true
		o.Files, o.Changed, o.Rounds, o.Peers = s.Files, s.Changed, s.Rounds, s.Files == Files && s.Changed == Changed
		if err := Measure(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Measure makes a project of that size and measures on it.
func Measure(ctx context.Context, o Options) (err error) {
	m := &measuring{Options: o, project: filepath.Join(o.Dir, "project"), data: filepath.Join(o.Dir, "data")}
	defer func() {
		err = errors.Join(err, m.unmount())
		if !o.keep {
			err = errors.Join(err, os.RemoveAll(o.Dir))
		}
	}()
	if err := m.write(m.project, o.Files, oneText); err != nil {
		return fmt.Errorf("make a project: %w", err)
	}
	time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the clock of files has moved on: nothing was changed meanwhile
	if m.store, err = store.Open(m.data, m.project); err != nil {
		return err
	}
	for range o.Rounds {
		if err := errors.Join(m.round(ctx), ctx.Err()); err != nil {
			return err
		}
	}
	if o.Peers {
		return m.peers(ctx)
	}
	return nil
}

type measuring struct {
	Options

	project, data string
	store         *store.Store
	rounds        int
	views         []string // mounted
}

// name is where the n-th file lies.
func name(n int) string {
	return fmt.Sprintf("d%d/d%d/f%d", n/perDir/perDir, n/perDir, n)
}

// write writes the first files of a project below a folder.
func (m *measuring) write(top string, files int, text string) error {
	for n := range files {
		at := filepath.Join(top, name(n))
		if n%perDir == 0 {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// change writes evenly spread changes to an upper, as an overlay would.
func (m *measuring) change(upper, text string) error {
	for i := range m.Changed {
		at := filepath.Join(upper, name(i*(m.Files/m.Changed)))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Subject names what is measured with its size.
func Subject(what string, files, changed int) string {
	return fmt.Sprintf("%s, %d files, %d changed", what, files, changed)
}

// timed adds how long a call took, in milliseconds, and how long a processor worked for it.
func (m *measuring) timed(what, contender string, do func() error) error {
	began, worked := time.Now(), processor()
	err := do()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	m.Add(Subject(what, m.Files, m.Changed), contender, "ms", ms(took))
	m.Add(Subject(what, m.Files, m.Changed), contender+Worked, "ms", ms(processor()-worked))
	return nil
}

// Worked ends the name of a contender whose time of processors is told.
const Worked = ", processor"

// round is a session that changes files, with all that can be done about it.
func (m *measuring) round(ctx context.Context) (err error) {
	m.rounds++
	name := fmt.Sprintf("w%d", m.rounds)
	use, err := m.store.Begin(name, m.project, "")
	if err != nil {
		return err
	}
	err = m.change(filepath.Join(use.Mount.Store, use.Mount.Project.Upper), fmt.Sprint(m.rounds)+oneText)
	if err == nil {
		err = m.with(name, func(w *store.Workspace) error {
			return m.live(ctx, w)
		})
	}
	if err := errors.Join(err, use.Close()); err != nil {
		return err
	}
	// What unmounting makes durable is no part of a fork.
	err = m.with(name, func(w *store.Workspace) error { return m.stopped(ctx, w) })
	return errors.Join(err, m.unmount())
}

// live makes a checkpoint of a workspace whose processes are held still for it: ten that
// wait, and one that is at work.
func (m *measuring) live(ctx context.Context, w *store.Workspace) (err error) {
	still, end, err := agent(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	var held time.Duration
	timed := func() (func() error, error) {
		began := time.Now()
		thaw, err := still()
		if err != nil {
			return nil, err
		}
		return func() error {
			err := thaw()
			held = time.Since(began)
			return err
		}, nil
	}
	err = m.timed("checkpoint, live", ours, func() error {
		_, err := w.Save(ctx, "live", false, timed)
		return err
	})
	if err == nil {
		m.Add(Subject("held still for it", m.Files, m.Changed), ours, "ms", float64(held.Microseconds())/1000)
	}
	return err
}

func (m *measuring) with(name string, do func(*store.Workspace) error) error {
	w, err := m.store.Lock(name)
	if err != nil {
		return err
	}
	return errors.Join(do(w), w.Close())
}

func (m *measuring) stopped(ctx context.Context, w *store.Workspace) error {
	var c store.Checkpoint
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"diff", func() error {
			d, err := w.Diff(ctx, "", nil)
			if err != nil {
				return err
			}
			if len(d.Changes) != m.Changed || len(d.Conflicts) > 0 {
				err = fmt.Errorf("%d changes, %v", len(d.Changes), d.Conflicts)
			}
			return errors.Join(err, d.Close())
		}},
		{"checkpoint, stopped", func() (err error) {
			c, err = w.Save(ctx, "stopped", false, nil)
			return err
		}},
		{"restore", func() error {
			_, err := w.Restore(ctx, c.ID)
			return err
		}},
		{"ten forks", func() error { return m.fork(ctx, w, c.ID) }},
	} {
		if err := m.timed(step.what, ours, step.do); err != nil {
			return err
		}
	}
	d, err := w.Diff(ctx, "", nil)
	if err != nil {
		return err
	}
	err = m.timed("apply", ours, func() error {
		_, err := w.Apply(d, "all")
		return err
	})
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	return m.timed("undo", ours, func() error {
		_, err := w.Undo(1)
		return err
	})
}

// fork makes ten, and mounts the view of each.
func (m *measuring) fork(ctx context.Context, w *store.Workspace, id string) error {
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("%s-%d", w.Name, i))
	}
	if _, err := w.Fork(ctx, id, names, nil); err != nil {
		return err
	}
	for _, n := range names {
		use, err := m.store.Begin(n, m.project, "")
		if err != nil {
			return err
		}
		if m.Views {
			err = m.view(use.Mount, filepath.Join(m.Dir, "view", n))
		}
		if err := errors.Join(err, use.Close()); err != nil {
			return err
		}
	}
	return nil
}
