package docker

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/docker/engine"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/onhost"
)

// Options are where a driver's things are.
type Options struct {
	// Socket is the engine's.
	Socket string
	// Dir is a private folder for the sockets of sessions, short enough for one:
	// it stands for the instance, too.
	Dir string
	// Program is this program as a file, which runs inside; it must need no
	// library. Empty: the running one.
	Program string
	// Image is what runs where a Spec names none: a name that the engine knows.
	Image string
}

// Driver builds enclosures of containers.
type Driver struct {
	o      Options
	within time.Duration // bounds each call of the engine
}

// New gives the driver. It reaches nothing yet.
func New(o Options) *Driver { return &Driver{o, engine.AnswerWithin} }

// BuildsPeers says that a cloister has a way to those beside it.
func (*Driver) BuildsPeers() {}

// Hold holds what runs in a box still.
func (*Driver) Hold(h sandbox.Handle) (thaw func() error, err error) { return onhost.Hold(h) }

// Name is "docker".
func (*Driver) Name() string { return "docker" }

// StartWithin bounds a start: an engine bounds each of its answers itself.
func (*Driver) StartWithin() time.Duration { return 2 * time.Minute }

// Labels by which containers and images are found again.
const (
	labelInstance = "cloister.instance"
	labelSession  = "cloister.session"
	labelName     = "cloister.name"
	labelRole     = "cloister.role"
	labelRoot     = "cloister.root"
)

// instance tells this instance's containers from another's.
func (d *Driver) instance() string {
	sum := sha256.Sum256([]byte(d.o.Dir))
	return hex.EncodeToString(sum[:8])
}

// short is a session's name where bytes are few: of sockets and containers.
func short(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

func (d *Driver) folder(id string) string { return filepath.Join(d.o.Dir, short(id)) }

// The sockets of a session, in its folder.
const (
	doorGate  = "g" // bound in the gate's container
	doorInit  = "i" // bound in the agent's
	doorShims = "x" // where one more command is asked for

	noteProfile = "p" // a file with the seccomp profile, where an engine reads files
	noteEngine  = "e" // a file with the engine's socket, for who sweeps
	noteUnsure  = "u" // before a role: its container may come to be, or not
)

// program is the file that runs inside.
func (d *Driver) program(asRoot bool) (string, error) {
	file := d.o.Program
	if file == "" {
		var err error
		if file, err = os.Executable(); err != nil {
			return "", fmt.Errorf("find cloister itself: %w", err)
		}
	}
	real, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &sandbox.Unsupported{Guarantee: "program inside", Reason: file + " is gone: it was replaced while it ran",
			Fix: "start cloister again"}
	}
	if err != nil {
		return "", fmt.Errorf("find cloister itself: %w", err)
	}
	fi, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("look at cloister itself: %w", err)
	}
	if m := fi.Mode().Perm(); m&0o005 != 0o005 && (asRoot || m&0o500 != 0o500) {
		return "", &sandbox.Unsupported{Guarantee: "program inside",
			Reason: real + " may not be executed by the cloister's user", Fix: "chmod 755 " + real}
	}
	f, err := elf.Open(real)
	if err != nil {
		return "", fmt.Errorf("look at cloister itself: %w", err)
	}
	defer func() { _ = f.Close() }() // it was read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", &sandbox.Unsupported{
				Guarantee: "program inside", Reason: real +
					" needs the libraries of this machine, and the containers have none of them",
				Fix: "build cloister with CGO_ENABLED=0 (go run and go build need it too), or use --isolation native",
			}
		}
	}
	return real, nil
}

// doors are the sockets at which gate and first process come in.
type doors struct {
	dir  string
	gate *net.UnixListener
	init *net.UnixListener
	more *net.UnixListener
}

// openDoors makes a session's folder. The two sockets that containers see may be
// used by any user: the folder around them is private, and a container has only
// the socket itself.
func (d *Driver) openDoors(id string) (_ *doors, err error) {
	o := &doors{dir: d.folder(id)}
	if err := os.MkdirAll(d.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start docker: %w", err)
	}
	if err := os.Mkdir(o.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start docker: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.close())
		}
	}()
	for _, s := range []struct {
		name string
		at   **net.UnixListener
	}{{doorGate, &o.gate}, {doorInit, &o.init}, {doorShims, &o.more}} {
		path := filepath.Join(o.dir, s.name)
		if *s.at, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
			return nil, fmt.Errorf("start docker: %w", err)
		}
		if s.name != doorShims {
			if err = os.Chmod(path, 0o666); err != nil {
				return nil, fmt.Errorf("start docker: %w", err)
			}
		}
	}
	if err = os.WriteFile(filepath.Join(o.dir, noteEngine), []byte(d.o.Socket), 0o600); err != nil {
		return nil, fmt.Errorf("start docker: %w", err)
	}
	return o, nil
}

func dialUnix(ctx context.Context, path string) (*net.UnixConn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// leave lets go of the sockets and keeps the folder, by which a sweep finds what is
// left: containers of an engine that does not answer now.
func (o *doors) leave() {
	for _, l := range []*net.UnixListener{o.gate, o.init, o.more} {
		if l != nil {
			l.Close()
		}
	}
}

func (o *doors) close() error {
	o.leave()
	if err := os.RemoveAll(o.dir); err != nil {
		return fmt.Errorf("remove sockets: %w", err)
	}
	return nil
}

// user is who the payload is: the host's user by the same number or, as root,
// one of a range that systemd's list of uses leaves free, different for each shim.
func user(s sandbox.Spec) inside.User {
	u := inside.User{UID: s.User.ID, GID: os.Getegid(), Name: s.User.Name, Home: string(s.User.Home)}
	if os.Geteuid() == 0 {
		u.UID = 1_900_000_000 + os.Getpid()%4_194_304
		u.GID = u.UID
	}
	return u
}

// Probe is in probe_linux.go, Start in start_linux.go.
var (
	_ sandbox.Driver      = (*Driver)(nil)
	_ sandbox.PeerDriver  = (*Driver)(nil)
	_ sandbox.SlowStarter = (*Driver)(nil)
)
