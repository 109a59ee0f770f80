package memory

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/sandbox"
	"cloister/session/launch"
	"cloister/state/store"
)

// proven are programs by which no random value comes out the same in two children. A thousand
// values of openssl's rand were compared in ten of them (docs/gvisor.md); the others draw none:
// first is ours, dash has no $RANDOM, and of the libraries sleep, cat and tail call nothing that
// draws.
var proven = []string{"/run/.cloister/first", "/usr/bin/openssl", "/usr/bin/dash", "/usr/bin/sleep", "/usr/bin/cat",
	"/usr/bin/tail"}

// repeats says of a program what was seen to come out the same in each child, and what was
// seen to differ.
func repeats(program string) string {
	name := path.Base(program)
	switch {
	case strings.HasPrefix(name, "python"):
		return "module random; not ssl, secrets, uuid4, os.urandom"
	case name == "node" || name == "nodejs":
		return "Math.random, the next 128 of crypto.randomUUID, the next 1,024 of crypto.randomInt; " +
			"not crypto.randomBytes, nor getRandomValues"
	case name == "java":
		return "Math.random, ThreadLocalRandom, SecureRandom of kind DRBG; not the usual SecureRandom, nor UUID.randomUUID"
	case name == "bash":
		return "$RANDOM; not $SRANDOM"
	case strings.HasPrefix(name, "ruby"):
		return "Kernel#rand, Random; not SecureRandom, OpenSSL::Random"
	case strings.HasPrefix(name, "perl"):
		return "rand; modules were not looked at"
	}
	return "not looked at"
}

// Repeating is the error for a memory whose programs may draw the same random values in each
// child.
type Repeating struct{ Programs []sandbox.Program }

// Error lists them.
func (r *Repeating) Error() string {
	var list []string
	for _, p := range r.Programs {
		list = append(list, fmt.Sprintf("%s (process %d: %s)", path.Base(p.Path), p.PID, repeats(p.Path)))
	}
	return "fork: random values of these may be the same in each child: " + strings.Join(list, ", ")
}

// Hints say what to do instead.
func (r *Repeating) Hints() []string {
	return []string{
		"fork without --memory, and start the agent anew in each",
		"or go on with it: --accept residue:" + launch.ResidueRandomness,
	}
}

// Accepted refuses programs that are not proven, unless a person accepted them.
func Accepted(programs []sandbox.Program, residues []string) error {
	left := slices.DeleteFunc(slices.Clone(programs), func(p sandbox.Program) bool {
		return slices.Contains(proven, p.Path)
	})
	if len(left) == 0 || slices.Contains(residues, launch.ResidueRandomness) {
		return nil
	}
	return &Repeating{left}
}

// Begin begins a box of a driver: one that goes on from the memory in a folder, where there is
// one. The claim is what the guardian is asked to vouch for: without it no session begins.
func Begin(d sandbox.Driver, dir string, residues []string, g sandbox.Ground) (sandbox.Begun, *api.Memory, error) {
	if dir == "" {
		return sandbox.Begin(d, g), nil, nil
	}
	keeper, ok := d.(sandbox.MemoryKeeper)
	if !ok {
		return nil, nil, &Needs{"fork", "this", "is " + d.Name()}
	}
	sheet, err := Read(dir)
	if err == nil {
		err = Accepted(sheet.Programs, residues)
	}
	if err != nil {
		return nil, nil, err
	}
	claim, err := sheet.Claim()
	if err != nil {
		return nil, nil, err
	}
	image, err := Open(dir, sheet)
	if err != nil {
		return nil, nil, err
	}
	return sandbox.Restored(keeper, image), claim, nil
}

// Of is the sheet of a checkpoint's memory. A memory of another checkpoint that lies in its place,
// an older one or another cloister's, is refused: the seal alone would not tell it.
func Of(w *store.Workspace, c store.Checkpoint) (Sheet, error) {
	s, err := Read(Folder(w, c))
	if err == nil && s.Checkpoint != c.ID {
		err = fmt.Errorf("the memory of checkpoint %s is not its own, but that of checkpoint %s of %s", c.ID, s.Checkpoint,
			s.Cloister)
	}
	return s, err
}

// Folder is where the memory of a checkpoint lies.
func Folder(w *store.Workspace, c store.Checkpoint) string {
	return filepath.Join(w.Folder(), c.Memory)
}

// A Brancher starts the children of a memory.
type Brancher struct {
	// Start starts a cloister in the background, and waits until it runs.
	Start func(context.Context, launch.Order) (launch.Answer, error)
	// Remove gives up the workspace of a child that did not start.
	Remove func(name string) error
}

// atOnce bounds how many children start at the same time.
const atOnce = 10

// Branch starts a child of a checkpoint's memory in each of the workspaces.
func (b *Brancher) Branch(
	ctx context.Context, w *store.Workspace, c store.Checkpoint, names []string, accept []string,
) error {
	dir := Folder(w, c)
	sheet, err := Of(w, c)
	if err != nil {
		return err
	}
	errs := make([]error, len(names))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, name := range names {
		group.Go(func() error {
			o, err := sheet.order(dir, name, accept)
			if err == nil {
				_, err = b.Start(ctx, o)
			}
			if err != nil {
				errs[i] = errors.Join(fmt.Errorf("fork: %s: %w", name, err), b.Remove(name))
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return errors.Join(errs...)
}

// order is that of a child: what the parent was started by, less what only one can have.
func (s Sheet) order(dir, name string, accept []string) (launch.Order, error) {
	var o launch.Order
	if err := exactjson.Unmarshal(s.Order, &o); err != nil {
		return o, fmt.Errorf("read how %s was started: %w", s.Cloister, err)
	}
	o.Name, o.Isolation, o.Workspace, o.From = name, s.Isolation, "overlay", dir
	o.Publish, o.Report, o.Rejoin = nil, "", false
	o.Accept = append(slices.Clip(o.Accept), accept...)
	return o, nil
}
