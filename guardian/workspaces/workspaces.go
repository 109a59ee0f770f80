// Package workspaces answers the window about kept overlay workspaces.
//
// The promise: one answer at a time reads what a payload wrote, and an act is done to its
// end, also where the browser goes away. What stands against it is an error of session/kept or state/store.
//
// What is done it leaves to session/kept, which the command line uses as well.
package workspaces

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/internal/xdg"
	"cloister/session/kept"
	"cloister/session/launch"
	"cloister/state/store"
	"cloister/workspace/obeyed"
	"cloister/workspace/projects"
)

// A Room answers for the workspaces of one instance.
type Room struct {
	Dirs   xdg.Dirs
	Audit  string // the folder of the record
	Record func(context.Context, api.StateRecord) error
	Hold   func(ctx context.Context, name string) (thaw func() error, err error)
	// Begin starts a cloister, and gives the status that its shim will end with.
	Begin func(context.Context, launch.Order) (launch.Answer, <-chan int, error)
	Logs  string // the folder of what cloisters print that were begun so
	Obeys obeyed.Person

	// one is held by readers and by those that act: each locks a workspace, and neither is to find
	// it busy because of the other. To compare may take long, and waits for each by itself.
	one sync.Mutex
}

func (r *Room) hand() (*kept.Hand, error) {
	s, err := kept.Open(r.Dirs, "")
	return &kept.Hand{Store: s, Audit: r.Audit, Record: r.Record, Hold: r.Hold, Begin: r.begin, Obeys: r.Obeys,
		Known: func(main string) error { _, err := projects.Read(r.Dirs, main); return err }}, err
}

// escaped is an error whose words may be a payload's.
type escaped struct{ error }

// Error escapes what a screen would obey.
func (e escaped) Error() string { return termsafe.Text(e.error.Error()) }

// Unwrap is the error itself.
func (e escaped) Unwrap() error { return e.error }

func escape(err error) error {
	if err == nil {
		return nil
	}
	return escaped{err}
}

// List gives all of them.
func (r *Room) List(ctx context.Context) ([]api.Workspace, error) {
	r.one.Lock()
	defer r.one.Unlock()
	h, err := r.hand()
	if err != nil {
		return nil, err
	}
	return h.List(ctx)
}

// Diff gives what one changed: at a checkpoint, since another, with the text of a path.
func (r *Room) Diff(ctx context.Context, name string, words url.Values) (out api.WorkspaceDiff, err error) {
	r.one.Lock()
	defer r.one.Unlock()
	h, err := r.hand()
	if err == nil {
		err = soon(ctx, func() error {
			out, err = h.Shown(ctx, name, kept.Look{At: words.Get("at"), Since: words.Get("since"),
				Path: words.Get("path"), Lines: words.Get("lines") != ""})
			return err
		})
	}
	return out, escape(err)
}

// Act does what was asked for.
func (r *Room) Act(ctx context.Context, name, verb string, in api.WorkspaceAct) (out api.WorkspaceActed, err error) {
	h, err := r.hand()
	switch {
	case err != nil:
	case verb == "compare":
		out, err = r.compare(ctx, h, name, in)
	default:
		r.one.Lock()
		defer r.one.Unlock()
		out, err = h.Act(context.WithoutCancel(ctx), name, verb, in)
	}
	return out, escape(err)
}

// keepWithin bounds the wait for another command that has the workspace: the agent's turn
// waits for it.
const keepWithin = 3 * time.Second

// Keep makes an automatic checkpoint of one, where something was written since the last.
// next is the conversation that its agent goes on with, "" where that is not known.
func (r *Room) Keep(ctx context.Context, name, why, next string) error {
	h, err := r.hand()
	if err != nil {
		return err
	}
	w, err := lockSoon(ctx, h.Store, name)
	if err != nil {
		return escape(err)
	}
	_, err = h.SaveByItself(context.WithoutCancel(ctx), w, why, next)
	return escape(errors.Join(err, w.Close()))
}

// lockSoon locks a workspace unless another command has it for long.
func lockSoon(ctx context.Context, s *store.Store, name string) (w *store.Workspace, err error) {
	err = soon(ctx, func() error {
		w, err = s.TryLock(name)
		return err
	})
	return w, err
}

// soon does what another command may stand in the way of for a moment.
func soon(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := do()
		if _, busy := errors.AsType[*store.Busy](err); !busy {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}
