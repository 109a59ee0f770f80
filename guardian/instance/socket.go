// Package instance makes one process the only guardian of a folder, and listens there for
// processes of its own user alone.
//
// It promises that a second guardian does not start beside the first, and that every
// connection is of that user, with the peer's identity as the kernel gives it in its context.
// It reads no request.
//
// Most readers want [Take], [Listen] and [PeerOf].
package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"cloister/internal/peercred"
	"cloister/internal/xdg"
)

// ErrTaken reports that another guardian has the folder.
var ErrTaken = errors.New("a guardian is already running")

// Take makes dir a private folder and this process the only guardian
// in it. The lock goes with the process, however it ends.
func Take(dir string) (unlock func(), err error) {
	if err := xdg.Private(dir, os.Getuid()); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "guardian.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the instance: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrTaken
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the instance: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// Listen makes the socket, 0600 in the private folder. Whoever holds the lock
// may remove what an earlier guardian left there, if it is a socket.
func Listen(path string, log *slog.Logger) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("listen: %s is in the way and is no socket", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	// Until here only the 0700 folder keeps others out, which is enough.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &ownListener{UnixListener: l, uid: os.Getuid(), log: log}, nil
}

// ownListener accepts connections of its own user only.
type ownListener struct {
	*net.UnixListener
	uid int
	log *slog.Logger
}

// Accept drops the connections of others: they have no business here, not
// even an answer.
func (l *ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		_, err = peercred.Require(c, l.uid)
		if err == nil {
			return c, nil
		}
		l.log.Warn("refused a connection", "error", err)
		_ = c.Close()
	}
}

// PeerKey is the key of the peer in a connection's context.
type PeerKey struct{}

// WithPeer keeps who is at the other end in the connection's context.
func WithPeer(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	cred, err := peercred.Of(u)
	if err != nil {
		return ctx // peerOf then has none, and every route refuses
	}
	return context.WithValue(ctx, PeerKey{}, cred)
}

// PeerOf is the peer that [WithPeer] kept.
func PeerOf(ctx context.Context) (peercred.Cred, bool) {
	cred, ok := ctx.Value(PeerKey{}).(peercred.Cred)
	return cred, ok
}
