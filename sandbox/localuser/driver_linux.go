package localuser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/internal/peercred"
	"cloister/sandbox"
	"cloister/sandbox/apart"
	"cloister/sandbox/native"
)

// Driver has boxes built by root's helper.
type Driver struct {
	socket  string
	release string
}

// New gives the driver. release is that of this program, which the helper's must be too.
func New(socket, release string) *Driver { return &Driver{socket, release} }

// What this driver can besides. Its boxes are apart's.
var (
	_ sandbox.PeerDriver = (*Driver)(nil)
	_ sandbox.Separable  = (*Driver)(nil)

	_ sandbox.WarmStarter = (*Driver)(nil)
	_ sandbox.Holder      = (*Driver)(nil)
)

// Name is "user".
func (*Driver) Name() string { return Name }

// BuildsPeers says that a cloister has a way to those beside it.
func (*Driver) BuildsPeers() {}

// Apart is the driver itself: each of its boxes is owned by a process of its own.
func (d *Driver) Apart() sandbox.Driver { return d }

// Start has the box built and its command run.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	return d.Begin(sandbox.Ground{}).Start(ctx, s, w)
}

// Begin reaches the helper, whose process for the box begins beside what its caller does.
func (d *Driver) Begin(sandbox.Ground) sandbox.Begun {
	b := &begun{d: d, reached: make(chan struct{})}
	go func() {
		defer close(b.reached)
		b.c, b.err = d.connect()
	}()
	return b
}

// begun is a connection to the process that will own a box.
type begun struct {
	d       *Driver
	reached chan struct{}
	c       *net.UnixConn // nil once it is another's
	err     error
}

// Close gives up what has not been started.
func (b *begun) Close() error {
	<-b.reached
	if b.c == nil {
		return nil
	}
	c := b.c
	b.c = nil
	return c.Close()
}

// Start has the box built and its command run.
func (b *begun) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (box sandbox.Box, err error) {
	defer func() {
		if left := b.Close(); err == nil { // it is there where the order was not sent
			err = left
		}
	}()
	if err := refuse(s); err != nil {
		return nil, err
	}
	s.Files = slices.Clone(s.Files)
	for i, f := range s.Files {
		text, err := f.Content() // read with this user's rights
		if err != nil {
			return nil, fmt.Errorf("start user: %w", err)
		}
		s.Files[i] = sandbox.File{Path: f.Path, Data: text, Mode: f.Mode}
	}
	files, err := open(native.Places(s))
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	<-b.reached
	if b.err != nil {
		return nil, b.err
	}
	c := b.c
	b.c = nil
	return apart.Over(ctx, c, apart.Order{Spec: s, Release: b.d.release}, w, files)
}

// Exec has one more command run in a box that the helper built.
func (d *Driver) Exec(ctx context.Context, h sandbox.Handle, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	s.Files, s.Links, s.Protect = nil, nil, nil // they are there
	c, err := d.connect()
	if err != nil {
		return nil, err
	}
	return apart.Over(ctx, c, apart.Order{Spec: s, Handle: h, Release: d.release}, w, nil)
}

// Hold has what runs in a box held still: its processes are no user's but root's to stop.
func (d *Driver) Hold(h sandbox.Handle) (thaw func() error, err error) {
	c, err := d.connect()
	if err != nil {
		return nil, err
	}
	return apart.Hold(c, apart.Order{Handle: h, Release: d.release})
}

// refuse names what this level does not have.
func refuse(s sandbox.Spec) error {
	const fix = "use --isolation native or docker"
	switch {
	case s.Root.Dir != "":
		return &sandbox.Unsupported{Guarantee: "system from an image", Fix: fix,
			Reason: "start user: root's helper reads no image that its caller could have written"}
	case len(s.Devices) > 0:
		return &sandbox.Unsupported{Guarantee: "devices", Fix: fix,
			Reason: "start user: root's helper shows no device of the host, and " + strings.Join(s.Devices, ", ") +
				" was asked for"}
	case len(s.Judged) > 0 || s.InKernel:
		return &sandbox.Unsupported{Guarantee: "files and programs judged by the kernel", Fix: fix,
			Reason: "start user: root's helper has no judge"}
	}
	return nil
}

// open opens what a Spec shows, without following a link on the way.
func open(places []sandbox.Bind) ([]*os.File, error) {
	files := make([]*os.File, 0, len(places))
	for _, b := range places {
		fd, err := unix.Openat2(unix.AT_FDCWD, string(b.Source),
			&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return files, fmt.Errorf("start user: open %s: %w", b.Source, err)
		}
		files = append(files, os.NewFile(uintptr(fd), string(b.Source)))
	}
	return files, nil
}

// connect reaches the helper, if it is root's.
func (d *Driver) connect() (*net.UnixConn, error) {
	if os.Geteuid() == 0 {
		return nil, lacking("root has no need of another account", "use --isolation native")
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.socket, Net: "unix"})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EACCES) {
		return nil, lacking("no helper of root's listens at "+d.socket, "sudo cloister setup local-user")
	}
	if err != nil {
		return nil, fmt.Errorf("start user: reach the helper: %w", err)
	}
	if _, err := peercred.Require(c, 0); err != nil {
		return nil, errors.Join(lacking(fmt.Sprintf("who listens at %s is not root: %v", d.socket, err),
			"sudo cloister setup local-user"), c.Close())
	}
	return c, nil
}

// There reports whether a helper of root's seems to listen.
func (d *Driver) There() bool { return unix.Access(d.socket, unix.W_OK) == nil }

// lacking says why the helper does not build.
func lacking(reason, fix string) *sandbox.Unsupported {
	return &sandbox.Unsupported{Guarantee: "namespaces by root's helper", Reason: "start user: " + reason, Fix: fix}
}
