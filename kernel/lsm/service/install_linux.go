package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"cloister/internal/durable"
	"cloister/kernel/lsm"
)

// What Install makes.
const (
	Program = "/usr/local/libexec/cloister-lsm"
	Unit    = "/etc/systemd/system/" + Name
)

// capabilities are what the service has of root's power: the programs, their file system and the
// control groups that sessions are found at again.
const capabilities = "CAP_SYS_ADMIN CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH CAP_SYS_RESOURCE"

// unit is the service. It has no mount namespace of its own: the pins are to be the host's.
const unit = `# Made by: cloister lsm install. It is removed by: cloister lsm uninstall
[Unit]
Description=Cloister's judge of files and programs, for users' own control groups

[Service]
ExecStart=` + Program + ` lsm serve
Restart=on-failure
NoNewPrivileges=yes
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
CapabilityBoundingSet=` + capabilities + `
LimitNOFILE=1048576
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
`

// Setup is root's word about the service: made once, and removed whole.
type Setup struct {
	// Self is this program, of which root keeps a copy.
	Self string
	// Run runs a program of the host.
	Run func(ctx context.Context, name string, args ...string) error
	// Say tells a person what was done.
	Say func(format string, args ...any)
	// Root is where the host's files lie, for tests; "" for the host itself.
	Root string
}

// Install makes the program and its service, and has it run. The error is an lsm.Unsupported
// where the kernel would not load what it needs: then nothing is made.
func (s Setup) Install(ctx context.Context) error {
	if err := lsm.Try(); err != nil {
		return err
	}
	return s.install(ctx)
}

func (s Setup) install(ctx context.Context) error {
	text, err := os.ReadFile(s.Self)
	if err != nil {
		return err
	}
	changed := false
	for _, f := range []struct {
		name string
		text []byte
		mode os.FileMode
	}{{Program, text, 0o755}, {Unit, []byte(unit), 0o644}} {
		name := filepath.Join(s.Root, f.name)
		if there, err := os.ReadFile(name); err == nil && bytes.Equal(there, f.text) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := durable.WriteFile(name, f.text, f.mode); err != nil {
			return err
		}
		s.Say("made    %s", f.name)
		changed = true
	}
	if !s.systemd() {
		s.Say("hint: this host has no systemd: have root run this at every boot:")
		s.Say("hint: %s lsm serve", Program)
		return nil
	}
	err = s.Run(ctx, "systemctl", "daemon-reload")
	if err == nil {
		err = s.Run(ctx, "systemctl", "enable", "--now", Name)
	}
	if err == nil && changed {
		err = s.Run(ctx, "systemctl", "restart", Name) // what it judges is frozen, and ends
	}
	if err == nil {
		s.Say("ready   cloister run, as any user whose control groups are its own")
	}
	return err
}

// Uninstall removes all that Install made. Sessions that it judges end.
func (s Setup) Uninstall(ctx context.Context) error {
	var errs []error
	if _, err := os.Lstat(filepath.Join(s.Root, Unit)); err == nil {
		if s.systemd() {
			errs = append(errs, s.Run(ctx, "systemctl", "disable", "--now", Name))
		}
		errs = append(errs, s.remove(Unit))
		if s.systemd() {
			errs = append(errs, s.Run(ctx, "systemctl", "daemon-reload"))
		}
	}
	for _, name := range []string{Program, filepath.Dir(Socket)} {
		if _, err := os.Lstat(filepath.Join(s.Root, name)); err == nil {
			errs = append(errs, s.remove(name))
		}
	}
	return errors.Join(errs...)
}

func (s Setup) remove(name string) error {
	if err := os.RemoveAll(filepath.Join(s.Root, name)); err != nil {
		return err
	}
	s.Say("removed %s", name)
	return nil
}

func (s Setup) systemd() bool {
	fi, err := os.Lstat(filepath.Join(s.Root, "/run/systemd/system"))
	return err == nil && fi.IsDir()
}

// Run is the service, in the foreground, until the context is over.
func Run(ctx context.Context, log io.Writer) error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	if err == nil && limit.Cur < limit.Max {
		limit.Cur = limit.Max
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		return fmt.Errorf("serve the LSM: %w", err)
	}
	loaded := &programs{}
	if err := loaded.load(); err != nil {
		return err
	}
	l, err := listen(Socket)
	if err != nil {
		return errors.Join(fmt.Errorf("serve the LSM: %w", err), loaded.unload())
	}
	fmt.Fprintln(log, "cloister lsm: listening at", Socket)
	s := &Server{Loader: loaded, Log: log}
	return errors.Join(s.Serve(ctx, l), ignoreGone(os.Remove(Socket)), loaded.unload())
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// listen makes the socket, which every user may reach.
func listen(path string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		return nil, errors.Join(fmt.Errorf("%s: another service listens there", path), c.Close())
	}
	if err := ignoreGone(os.Remove(path)); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, os.Chmod(path, 0o666)
}
