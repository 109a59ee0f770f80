package memory

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"cloister/api"
	"cloister/api/client"
	"cloister/audit"
	"cloister/internal/exactjson"
	"cloister/sandbox"
	"cloister/session/kept"
	"cloister/state/layers"
	"cloister/state/store"
)

// Needs is the error for a cloister whose memory cannot be kept.
type Needs struct{ Verb, Name, Why string }

// Error names what it needs.
func (n *Needs) Error() string {
	return fmt.Sprintf("%s: --memory needs --isolation gvisor: %s %s", n.Verb, n.Name, n.Why)
}

// A Saver keeps the memory of running cloisters with the checkpoint of their files.
type Saver struct {
	Hand   *kept.Hand
	Client *client.Client
	Driver func(isolation string) (sandbox.Driver, error)
	// Encrypt has what lies on the disk encrypted, by a key that the guardian seals.
	Encrypt bool
	// Accepts refuses what runs before anything of it is kept; nil keeps whatever it is.
	Accepts func([]sandbox.Program) error
}

// Save makes a checkpoint of a workspace and keeps the memory of the same moment: nothing
// inside moves until both are taken.
func (s *Saver) Save(
	ctx context.Context, verb string, w *store.Workspace, message string, auto bool,
) (c store.Checkpoint, err error) {
	info, err := s.Client.Session(ctx, w.Name)
	if err != nil || info.State != api.StateRunning || len(info.Exec) == 0 {
		return c, &Needs{verb, w.Name, "does not run"}
	}
	driver, err := s.Driver(info.Isolation)
	if err != nil {
		return c, err
	}
	keeper, ok := driver.(sandbox.MemoryKeeper)
	if !ok {
		return c, &Needs{verb, w.Name, "runs with " + info.Isolation}
	}
	var spec sandbox.Spec
	var more struct {
		Order json.RawMessage `json:"order"`
	}
	if err := errors.Join(exactjson.Unmarshal(info.Exec, &spec), json.Unmarshal(info.Exec, &more)); err != nil {
		return c, fmt.Errorf("%s: read the description of %s: %w", verb, w.Name, err)
	}
	if len(more.Order) == 0 {
		return c, &Needs{verb, w.Name, "was started by another version of cloister, or not by run and start"}
	}
	id := strings.ToLower(rand.Text()[:8]) // as a layer is called
	dir := filepath.Join(w.Folder(), id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return c, fmt.Errorf("%s: %w", verb, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, layers.RemoveAll(w.Folder(), id))
		}
	}()
	image, err := Create(dir, s.Encrypt)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, image.Close()) }()
	taken := false
	freeze := func() (func() error, error) {
		still, thaw, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- keeper.SaveMemory(ctx, sandbox.Handle(info.Handle), spec, image.Image, func() error {
				if s.Accepts != nil {
					if err := s.Accepts(image.Programs); err != nil {
						return err
					}
				}
				close(still)
				<-thaw
				return nil
			})
		}()
		select {
		case err := <-done:
			return nil, cmp.Or(err, errNotStill)
		case <-still:
		}
		taken = true
		return sync.OnceValue(func() error {
			close(thaw)
			return <-done
		}), nil
	}
	sheet := Sheet{Cloister: w.Name, Session: info.ID, Isolation: info.Isolation, Order: more.Order}
	w.Remembers = func(checkpoint string) (string, error) {
		if !taken {
			return "", &Needs{verb, w.Name, "has ended"}
		}
		sheet.Checkpoint = checkpoint
		return id, s.describe(ctx, w, dir, image, &sheet, message)
	}
	defer func() { w.Remembers = nil }()
	c, err = s.Hand.Watched(ctx, w).Save(ctx, message, auto, freeze)
	return c, err
}

var errNotStill = errors.New("nothing could be held still")

// describe writes the sheet, once the guardian has recorded and sealed it.
func (s *Saver) describe(
	ctx context.Context, w *store.Workspace, dir string, image *Output, sheet *Sheet, message string,
) error {
	if err := image.Describe(sheet); err != nil {
		return err
	}
	if err := w.Room("checkpoint", sheet.Bytes()); err != nil {
		return err
	}
	claim, err := sheet.Claim()
	if err != nil {
		return err
	}
	sheet.Seal, err = s.Client.SealMemory(ctx, api.StateRecord{
		Kind: audit.StateMemory, Cloister: w.Name, Project: w.Project, Resource: sheet.Checkpoint, Reason: message,
		Digest: claim.Digest, Session: sheet.Session, Key: image.Key,
	})
	if err != nil {
		return err
	}
	return Write(dir, *sheet)
}
