package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"time"
)

// What a driver or a box may also do. Each is an interface of its own, which the
// session asks for by a type assertion and does without where it is missing; a new
// driver implements those that it can, and says so with a declaration such as
//
//	var _ sandbox.Dialer = (*box)(nil)
//
// sandboxtest tries each that a driver has.

// WarmStarter is a Driver that can build what every box has before its Spec is known.
type WarmStarter interface {
	Begin(g Ground) Begun
}

// Dialer is a Box whose loopback can be reached from outside: what publishing a
// port needs. It is for the owner of the box alone; nothing inside can use it.
type Dialer interface {
	// Dial connects to a TCP port that something inside listens on.
	Dial(ctx context.Context, port uint16) (net.Conn, error)
}

// SlowStarter is a Driver whose boxes may take longer to start than native's.
type SlowStarter interface{ StartWithin() time.Duration }

// Elsewhere is a Driver whose boxes are on another host: they see copies of files at most, and no
// program of this host runs in them but this one.
type Elsewhere interface{ OnAnotherHost() }

// PeerDriver is a Driver that builds Specs with Peers; its boxes are PeerDialers.
type PeerDriver interface{ BuildsPeers() }

// Separable is a Driver of which one process may own one box alone. Apart gives the driver
// that has each box owned by a process of its own.
type Separable interface{ Apart() Driver }

// MemoryKeeper is a Driver that can keep the memory of a running box, and start a box that
// goes on from it.
type MemoryKeeper interface {
	// SaveMemory writes the memory of a box to an image.
	// Everything inside stands still meanwhile, and while still runs, which it calls once
	// nothing moves; then the box goes on with its connections. s is the box's Spec.
	SaveMemory(ctx context.Context, h Handle, s Spec, i *Image, still func() error) error
	// RestoreMemory is Start with what an image holds in place of the Spec's command. The
	// paths inside must be those of the box that was saved; their sources need not. What
	// exec had started there has ended, connections are reset, and arm is called once the
	// first process inside has said by which name it goes on: no process serves the gate before.
	RestoreMemory(ctx context.Context, s Spec, w Wiring, i *Image) (Box, error)
}

// Image is a memory that a MemoryKeeper wrote: in Shape what it must be given of its descriptors
// again, and the programs that ran.
type Image struct {
	// Files are ImageFiles of them, which may be files in memory.
	Files    []*os.File
	Shape    string
	Programs []Program
	// Sound waits until it is known that every byte is as it was kept, and says where one is
	// not. nil: that is known. A driver may build a box meanwhile, and gives it no byte before.
	Sound func() error
}

// ImageFiles is of how many files an image is.
const ImageFiles = 3

// Known waits until the image is known to be as it was kept.
func (i *Image) Known() error {
	if i.Sound == nil {
		return nil
	}
	return i.Sound()
}

// Program is a process of an image.
type Program struct {
	PID  int    `json:"pid"`
	Path string `json:"path"` // of its executable, inside
}

// Restored begins a box that goes on from an image.
func Restored(k MemoryKeeper, i *Image) Begun { return &restored{k, i} }

type restored struct {
	keeper MemoryKeeper
	image  *Image
}

func (r *restored) Start(ctx context.Context, s Spec, w Wiring) (Box, error) {
	return r.keeper.RestoreMemory(ctx, s, w, r.image)
}

func (r *restored) Close() error { return r.image.Close() }

// Close closes the files of an image.
func (i *Image) Close() error {
	var errs []error
	_ = i.Known() // whoever looks at the files has done with them then
	for n, f := range i.Files {
		if f != nil {
			errs = append(errs, f.Close())
		}
		i.Files[n] = nil
	}
	return errors.Join(errs...)
}

// PeerDialer is a Box that others beside it reach at its own address.
type PeerDialer interface {
	Dialer
	// DialPeer connects to a TCP port that something inside listens on, not for its
	// loopback alone.
	DialPeer(ctx context.Context, port uint16) (net.Conn, error)
}

// Resizer is a Box whose command can have a terminal of its own.
type Resizer interface {
	// Resize gives the command's terminal the size of the caller's. It does nothing
	// where there is no terminal.
	Resize() error
}

// Noticer is a Box that has something to say to the person when the command has ended.
type Noticer interface{ Notices() []string }

// EarlyEnder is a Box that can tell a command's end a moment before the box itself
// is gone, when nothing else lives inside.
type EarlyEnder interface {
	// Alone gives how the command has ended. Where something else lives inside, it
	// gives nothing, and Wait alone tells.
	Alone() <-chan Status
}

// Holder is a Driver that can hold what runs in a box still.
type Holder interface {
	// Hold stops every process inside, but the first where that is the driver's own, until
	// thaw lets them go on.
	Hold(h Handle) (thaw func() error, err error)
}

// Hold holds a box still where its driver can.
func Hold(d Driver, h Handle) (thaw func() error, err error) {
	holder, ok := d.(Holder)
	if !ok {
		return nil, &Unsupported{Guarantee: "hold a cloister still", Reason: "--isolation " + d.Name() + " cannot"}
	}
	return holder.Hold(h)
}

// Hosted is a Box that is processes of this host.
type Hosted interface {
	// Process is the host's number of the first.
	Process() int
}

// ProcessOf is the host's number of a box's first process, 0 where this host has none of it.
func ProcessOf(b Box) int {
	if h, ok := b.(Hosted); ok {
		return h.Process()
	}
	return 0
}

// Ground is what must be known to begin a box.
type Ground struct {
	User                  int // the id that the payload has inside
	Root                  Root
	Network               bool
	Peers                 *Peers
	Stdin, Stdout, Stderr *os.File
}

// Begun is a box of which the part that every box has is being built. It starts
// one Spec, with the Ground's user, root, network and peers, or is closed.
type Begun interface {
	Start(ctx context.Context, s Spec, w Wiring) (Box, error)
	// Close gives up what has not been started; after Start it does nothing.
	Close() error
}

// Begin begins a box beside whatever its caller does until the Spec is known,
// where the driver can; else Start does all of it.
func Begin(d Driver, g Ground) Begun {
	if b, ok := d.(WarmStarter); ok {
		return b.Begin(g)
	}
	return later{d}
}

type later struct{ Driver }

func (later) Close() error { return nil }
