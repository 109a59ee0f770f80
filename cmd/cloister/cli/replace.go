package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"cloister/api/client"
	"cloister/guardian/folders"
	"cloister/internal/exactjson"
	"cloister/internal/xdg"
)

// Program says what a guardian was started from, for those who find it running.
type Program struct {
	PID     int    `json:"pid"`
	Version string `json:"version"`
	Path    string `json:"path"`
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
}

func programFile(d xdg.Dirs) string { return filepath.Join(d.Runtime, "guardian.program") }

// thisProgram is the file that this process was started from.
func thisProgram() (Program, error) {
	exe, err := os.Executable()
	if err != nil {
		return Program{}, fmt.Errorf("find this program: %w", err)
	}
	p := Program{PID: os.Getpid(), Version: Version(), Path: exe}
	p.Device, p.Inode, _ = fileNumber(exe) // gone already: no file has the number 0
	return p, nil
}

func fileNumber(path string) (device, inode uint64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("%s: its file has no number", path)
	}
	return uint64(st.Dev), st.Ino, nil
}

// NameProgram leaves word of this guardian's program, until the function that it
// gives is called.
func NameProgram(d xdg.Dirs) (forget func() error, err error) {
	p, err := thisProgram()
	if err != nil {
		return nil, err
	}
	text, err := exactjson.Marshal(p)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(programFile(d), text, 0o600); err != nil {
		return nil, fmt.Errorf("name the guardian's program: %w", err)
	}
	return func() error {
		if err := os.Remove(programFile(d)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}

// outdated reports whether the guardian that runs is of another version, or was started
// from a file that is gone or another by now: it can start no helper of its own then.
func outdated(d xdg.Dirs) bool {
	text, err := os.ReadFile(programFile(d))
	var p Program
	if err != nil || exactjson.Unmarshal(text, &p) != nil {
		return false // none runs, or it is on its way in or out
	}
	device, inode, err := fileNumber(p.Path)
	return err != nil || device != p.Device || inode != p.Inode || p.Version != Version()
}

// replaceIdle ends an outdated guardian that no cloister depends on, so that another
// is started in its place.
func (a *App) replaceIdle(ctx context.Context, d xdg.Dirs) error {
	c, err := client.Dial(ctx, folders.Socket(d))
	if err != nil {
		if errors.Is(err, client.ErrNotRunning) {
			return nil
		}
		return err
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if err != nil || s.Sessions > 0 {
		return nil // it is ending, or in use
	}
	a.Log().Debug("replace the guardian", "pid", s.PID, "version", s.Version)
	return EndGuardian(ctx, c, s, "another takes its place")
}
