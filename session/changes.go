package session

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"cloister/api"
	"cloister/internal/realpath"
	"cloister/internal/stackroom"
	"cloister/sandbox"
	"cloister/workspace"
	"cloister/workspace/review"
)

// A reviewing is the review of one session; nil for one that changes nothing of the
// host's.
type reviewing struct {
	s     *Shim
	p     *review.Pending
	since time.Time
}

// beginReview writes down, before the command runs, that what it changes must be
// looked for.
func (s *Shim) beginReview(grant api.SessionGrant, began time.Time) (*reviewing, error) {
	if s.View.None || s.View.Overlay || s.Reviews.Dir == "" {
		return nil, nil
	}
	since := began.Add(-tick)
	p := review.Pending{
		Session: review.Session{ID: grant.ID, Name: grant.Name, Root: string(s.Project.Root), Main: string(s.Project.Main),
			Began: since},
		Also: s.writable(),
	}
	note, err := s.Reviews.Begin(p)
	if err != nil {
		return nil, err
	}
	return &reviewing{s, note, since}, nil
}

// writable are the folders besides the project that the command can write to.
func (s *Shim) writable() []string {
	var out []string
	for _, e := range s.View.Expose {
		if e.Access == sandbox.ReadWrite {
			out = append(out, e.Path)
		}
	}
	return out
}

// lookBefore looks, beside the command, at what lies in the project: it copies what programs
// of the host obey and what the command did not change yet, and tells of files that are hard
// links to something outside of the project. wait gives what was seen.
func (s *Shim) lookBefore(ctx context.Context, r *reviewing, view *workspace.View) (wait func() workspace.Before) {
	var found workspace.Before
	if s.View.None || s.View.Overlay {
		return func() workspace.Before { return found }
	}
	ctx, cancel := context.WithCancel(ctx)
	done, over := make(chan struct{}), make(chan struct{})
	go stackroom.For(func() {
		defer close(over)
		found = workspace.LookBefore(ctx, string(s.Project.Root), view.Own()).With(ctx, s.writable())
		r.copied(found)
		if n := len(found.Linked); n > 0 && s.Notify != nil {
			s.Notify(fmt.Sprintf("%s is a hard link to a file outside the project: what is written to it is written there as "+
				"well%s", found.Linked[0], more(n-1)))
		}
		if close(done); r != nil {
			_ = r.p.Settle(ctx) // a copy that cannot be noted is none: the entry says so
		}
	})
	return func() workspace.Before {
		select { // a short command does not cut it short for a small project
		case <-done:
		case <-time.After(20 * time.Millisecond):
		}
		cancel()
		<-over
		return found
	}
}

// copied keeps copies of what was found before.
func (r *reviewing) copied(found workspace.Before) {
	if r == nil {
		return
	}
	before, all := r.s.Reviews.Copy(r.p.Root, found.AutoRun, r.since)
	r.p.Copied(before, found.Whole && all)
}

// end makes what was found wait for a person.
func (r *reviewing) end(mended, paths []string, truncated bool, view workspace.Holder) error {
	if r == nil {
		return nil
	}
	if err := r.p.End(append(restored(mended), bounded(paths, view, r.p.Also)...), time.Now()); err != nil {
		return err
	}
	if truncated {
		return errors.New("look for changed files: not all could be looked at before the session's time was over")
	}
	return nil
}

func (r *reviewing) drop() error {
	if r == nil {
		return nil
	}
	return r.p.Drop()
}

// restored are the parts of the git folder that were put back after the session.
func restored(mended []string) []review.Change {
	var out []review.Change
	for _, path := range mended {
		out = append(out, review.Change{Path: path, Why: "git needs it, and it was not as it has to be: Cloister put it back",
			Mended: true})
	}
	return out
}

// bounded is what waits: each path, and a folder for those that are too many in one.
func bounded(paths []string, view workspace.Holder, also []string) []review.Change {
	shown, more := workspace.Grouped(paths)
	out := changes(shown, view, also)
	for _, m := range more {
		out = append(out, review.Change{Path: m.Folder, Why: fmt.Sprintf("%d more in it: programs of this host run or obey "+
			"them", m.Count)})
	}
	return out
}

// changes says of each path what is known of what lay there. Besides the project only the
// folders also were looked at before, and not the repository of a linked working tree.
func changes(paths []string, view workspace.Holder, also []string) []review.Change {
	var out []review.Change
	for _, path := range paths {
		unseen := !workspace.LookedBefore(path) || filepath.IsAbs(path) &&
			!slices.ContainsFunc(also, func(dir string) bool { return realpath.Inside(path, dir) })
		out = append(out, review.Change{Path: path, Why: workspace.Reason(path), Unseen: unseen, New: !view.Held(path) &&
			workspace.FoundAtStart(path)})
	}
	return out
}

// tick is that of the clock of file times, which is coarse.
const tick = 10 * time.Millisecond

// changed looks for auto-run files that the command changed, in all that it can write, while
// release takes the session's stubs away: those are left out, unless something lies there.
func (s *Shim) changed(
	ctx context.Context, began time.Time, view *workspace.View, before workspace.Before, release func() error,
) ([]string, bool) {
	if !view.Last() {
		before = before.Everything()
	}
	released := make(chan struct{})
	go stackroom.For(func() {
		defer close(released)
		_ = release() // its caller is given all errors
	})
	if s.View.None || s.View.Overlay {
		<-released
		return nil, false
	}
	since := backdated(began, time.Since(began), time.Now()).Add(-tick)
	first := s.Reviews.First(string(s.Project.Main), since)
	look := func(before workspace.Before) ([]string, bool) {
		return workspace.Ended(context.WithoutCancel(ctx), s.Project, s.writable(), since, first, view, before)
	}
	paths, truncated := look(before)
	if <-released; view.Left() {
		return look(before.Everything())
	}
	return paths, truncated
}

// A held says of everything, or of nothing, that it was protected. What was is not new.
type held bool

func (h held) Held(string) bool { return bool(h) }

// SweepReviews looks for what sessions changed whose process is gone.
func SweepReviews(ctx context.Context, store review.Store) error {
	return store.Sweep(ctx, func(ctx context.Context, p *review.Pending) ([]review.Change, error) {
		project, err := workspace.Find(p.Root)
		if err != nil {
			return nil, err
		}
		first := store.First(string(project.Main), p.Began)
		paths, truncated := workspace.Ended(ctx, project, p.Also, p.Began, first, held(false), workspace.Before{})
		if truncated && ctx.Err() != nil {
			return nil, fmt.Errorf("look for changed files: %w", ctx.Err())
		}
		return bounded(paths, held(true), p.Also), nil // what was protected is not known any more
	})
}

// backdated is when something began by the clock as it is set now: files have that
// one's times, and a clock that was set back would make what changed look older than
// the session. elapsed is by a clock that no one can set.
func backdated(began time.Time, elapsed time.Duration, now time.Time) time.Time {
	if by := now.Round(0).Sub(began.Round(0)) - elapsed; by < 0 {
		return began.Round(0).Add(by)
	}
	return began
}
