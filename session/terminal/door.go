package terminal

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"cloister/internal/xdg"
)

// DoorOf is the path of the socket at which the terminal of a session is found, by its ID.
func DoorOf(runtime, id string) string { return filepath.Join(doors(runtime), id[:16]) }

// doors is the folder of these sockets. Its name is short, since all of a socket's path has
// 107 bytes.
func doors(runtime string) string { return filepath.Join(runtime, "t") }

// A Door is the socket at which a cloister's terminal is found. The zero Door is closed.
type Door struct {
	listener *net.UnixListener
}

// Open makes the socket, for connections of this user alone.
func (d *Door) Open(path string, uid int) error {
	if err := xdg.Private(filepath.Dir(path), uid); err != nil {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("make the terminal's socket: %w", err)
	}
	d.listener = l
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("make the terminal's socket: %w", err)
	}
	return nil
}

// Serve lets terminals that connect look at a program, until the door is closed.
func (d *Door) Serve(h *Hub, uid int) { h.Serve(d.listener, uid) }

// Close takes the socket away; twice does no harm.
func (d *Door) Close() {
	if d.listener != nil {
		d.listener.Close()
		d.listener = nil
	}
}

// SweepDoors removes the sockets that crashed sessions left; live are the IDs of those that run.
func SweepDoors(runtime string, live []string) error {
	entries, err := os.ReadDir(doors(runtime))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweep terminals: %w", err)
	}
	var errs []error
	for _, e := range entries {
		alive := false
		for _, id := range live {
			alive = alive || strings.HasPrefix(id, e.Name())
		}
		path := filepath.Join(doors(runtime), e.Name())
		if alive || answers(path) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep terminals: %w", err))
		}
	}
	return errors.Join(errs...)
}

// answers reports whether anyone listens at a socket.
func answers(path string) bool {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return true
}
