package memory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/sandbox"
	"cloister/session/kept"
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
	case name == "bun":
		return "Math.random, the next 2 KiB of crypto.getRandomValues, randomUUID, randomUUIDv7 and randomInt; " +
			"not crypto.randomBytes"
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
// one. The claim is what the guardian is asked to vouch for: without it no session begins. The image is
// compared with its sheet meanwhile, or was by who ordered the box, who passed it on.
func Begin(
	d sandbox.Driver, dir string, passed *Passed, residues []string, g sandbox.Ground,
) (sandbox.Begun, *api.Memory, error) {
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
	image, err := passed.image(dir, sheet)
	if err != nil {
		return nil, nil, err
	}
	if passed != nil {
		image.Sound = passed.vouches(image, sheet, claim.Digest)
	} else {
		image.Sound = compare(image, sheet)
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

// A Brancher makes the children of a memory, and starts them.
type Brancher struct {
	Hand *kept.Hand
	// Start starts a cloister in the background, passes it files, and waits until it runs.
	Start func(context.Context, launch.Order, ...*os.File) (launch.Answer, error)
	// Key asks the guardian for the key of an image that is encrypted.
	Key func(context.Context, api.Memory) (string, error)
	// Free is how much memory the machine has for them, in bytes; nil asks it.
	Free func() (int64, error)
}

// atOnce bounds how many children start at the same time.
const atOnce = 10

// Branch makes children of a checkpoint's memory and starts each. A checkpoint that was made for
// them alone goes again where no child came of it.
func (b *Brancher) Branch(
	ctx context.Context, w *store.Workspace, c store.Checkpoint, count int, accept []string, alone bool,
) (forks []api.Fork, err error) {
	defer func() {
		there := func(f api.Fork) bool { return b.Hand.Store.Has(f.Name) }
		if err != nil && alone && !slices.ContainsFunc(forks, there) {
			err = errors.Join(err, w.Drop(c.ID))
		}
	}()
	sheet, err := Of(w, c)
	if err != nil {
		return nil, err
	}
	free := b.Free
	if free == nil {
		free = machineFree
	}
	if err := fitting(sheet, count, free); err != nil {
		return nil, err
	}
	dir := Folder(w, c)
	seen, err := b.open(ctx, dir, sheet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, seen.Close()) }()
	if forks, err = b.Hand.Fork(ctx, w, c.ID, count); err != nil {
		return nil, err
	}
	return forks, b.start(ctx, dir, seen, sheet, forks, accept)
}

// open opens an image in the clear, which is compared with its sheet beside whatever its caller does.
func (b *Brancher) open(ctx context.Context, dir string, s Sheet) (*sandbox.Image, error) {
	i, err := Open(dir, s)
	switch {
	case err != nil:
		return nil, err
	case !s.Encrypted:
		i.Sound = compare(i, s)
		return i, nil
	}
	claim, err := s.Claim()
	key := ""
	if err == nil {
		key, err = b.Key(ctx, *claim)
	}
	if err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return decrypted(i, s, key)
}

// start starts the children, beside the comparison of the image that all of them go on from.
func (b *Brancher) start(
	ctx context.Context, dir string, seen *sandbox.Image, sheet Sheet, forks []api.Fork, accept []string,
) error {
	errs := make([]error, len(forks))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, f := range forks {
		group.Go(func() error {
			o, err := sheet.order(dir, f.Name, accept)
			if err == nil {
				err = b.startOne(ctx, o, seen, sheet)
			}
			if err != nil {
				errs[i] = errors.Join(fmt.Errorf("fork: %s: %w", f.Name, err), b.Hand.Store.Forget(f.Name))
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	if err := seen.Known(); err != nil {
		return err // the others say no more
	}
	return errors.Join(errs...)
}

func (b *Brancher) startOne(ctx context.Context, o launch.Order, seen *sandbox.Image, sheet Sheet) error {
	files, over, err := pass(seen, sheet)
	if err != nil {
		return err
	}
	_, err = b.Start(ctx, o, files...)
	return errors.Join(err, over())
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
