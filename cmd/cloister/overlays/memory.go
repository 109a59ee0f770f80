package overlays

import (
	"context"
	"errors"
	"fmt"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/sandbox"
	"cloister/session/kept"
	"cloister/session/launch"
	"cloister/session/memory"
	"cloister/state/store"
)

// save makes a checkpoint, of the memory too where that is asked for.
func (a *Commands) save(
	ctx context.Context, h *kept.Hand, w *store.Workspace, message string, withMemory bool,
) (store.Checkpoint, error) {
	if !withMemory {
		return h.Save(ctx, w, message, false)
	}
	return a.remember(ctx, "checkpoint", h, w, message, nil)
}

func (a *Commands) remember(
	ctx context.Context, verb string, h *kept.Hand, w *store.Workspace, message string,
	accepts func([]sandbox.Program) error,
) (store.Checkpoint, error) {
	client, err := a.Ensure(ctx)
	if err != nil {
		return store.Checkpoint{}, err
	}
	defer client.Close()
	dirs, err := a.Dirs()
	if err != nil {
		return store.Checkpoint{}, err
	}
	encrypt, err := kept.EncryptsMemory(dirs)
	if err != nil {
		return store.Checkpoint{}, err
	}
	s := memory.Saver{Hand: h, Client: client, Driver: a.Driver, Accepts: accepts, Encrypt: encrypt}
	c, err := s.Save(ctx, verb, w, message, verb == "fork")
	if needs, ok := errors.AsType[*memory.Needs](err); ok {
		err = cli.Usage("cloister start --isolation gvisor --workspace overlay", "%v", needs)
	}
	if repeating, ok := errors.AsType[*memory.Repeating](err); ok {
		err = repeating // held still or not, is beside the point
	}
	return c, err
}

// forkMemory starts cloisters that go on from the memory of one, or of a checkpoint of it.
func (a *Commands) forkMemory(
	ctx context.Context, h *kept.Hand, w *store.Workspace, id string, count int, accept []string, asJSON bool,
) error {
	order := launch.Order{Verb: "fork", Accept: accept}
	if err := order.Check(); err != nil {
		return err
	}
	c, err := a.moment(ctx, h, w, id, func(list []sandbox.Program) error {
		return memory.Accepted(list, order.Accepted())
	})
	if err != nil {
		return err
	}
	key := func(ctx context.Context, m api.Memory) (string, error) {
		client, err := a.Ensure(ctx)
		if err != nil {
			return "", err
		}
		defer client.Close()
		return client.MemoryKey(ctx, m)
	}
	b := memory.Brancher{Hand: h, Start: a.Detach, Key: key}
	forks, err := b.Branch(ctx, w, c, count, accept, id == "")
	if err != nil {
		return err
	}
	if asJSON {
		return a.JSON(forks)
	}
	for _, f := range forks {
		a.Line("%s", f.Name)
	}
	return nil
}

// moment is a checkpoint with memory: the one that is named, or one of now.
func (a *Commands) moment(
	ctx context.Context, h *kept.Hand, w *store.Workspace, id string, accepts func([]sandbox.Program) error,
) (store.Checkpoint, error) {
	if id == "" {
		return a.remember(ctx, "fork", h, w, "fork", accepts)
	}
	c, err := w.Checkpoint(id)
	if err == nil && c.Memory == "" {
		err = cli.Hinted(fmt.Errorf("fork: %s@%s has no memory", w.Name, id), "cloister checkpoint "+w.Name+" --memory")
	}
	if err != nil {
		return c, err
	}
	sheet, err := memory.Of(w, c)
	if err != nil {
		return c, err
	}
	return c, accepts(sheet.Programs)
}
