package setup

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox/gvisor"
)

// setupGVisor builds the kernel's program of the gvisor level, or takes it from a folder,
// and puts it where it is looked for.
func (a *Commands) setupGVisor(ctx context.Context, from string) (err error) {
	dirs, err := a.Dirs()
	if err != nil {
		return err
	}
	to := gvisor.FolderIn(dirs.Data)
	if from == "" {
		if err := os.MkdirAll(dirs.Data, 0o700); err != nil {
			return err
		}
		dir, err := os.MkdirTemp(dirs.Data, "gvisor-build-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		a.Notice("building %s, gVisor %s, with go: some minutes", gvisor.ProgramName, gvisor.Pin)
		if err := gvisor.Build(ctx, dir, a.Program, a.Stderr); err != nil {
			return cli.Hinted(err, "what go says above; it needs Go 1.26.3 or newer and the way to its modules",
				"or build it elsewhere (docs/gvisor.md), then: cloister setup gvisor --from FOLDER")
		}
		from = dir
	}
	if from, err = a.kernelFrom(from); err != nil {
		return err
	}
	if err := gvisor.Verify(ctx, from, a.Program); err != nil {
		return cli.Hinted(err, "build it from this version's source, in sandbox/gvisor/kernel (docs/gvisor.md)")
	}
	if from != to {
		if err := gvisor.Install(from, to); err != nil {
			return err
		}
	}
	a.Line("%s lies in %s; use it: cloister run --isolation gvisor", gvisor.ProgramName, to)
	return nil
}

// kernelFrom is the folder that was typed, or that of a file in it, if no one but the
// person could have put programs there.
func (a *Commands) kernelFrom(from string) (string, error) {
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return "", err
	}
	if from, err = filepath.Abs(from); err != nil {
		return "", err
	}
	fi, err := os.Stat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", cli.Usage("name the folder that has "+gvisor.ProgramName+" and "+gvisor.FirstName,
			"setup gvisor: --from %s does not exist", from)
	case err != nil:
		return "", err
	case !fi.IsDir():
		from = filepath.Dir(from)
	}
	for _, name := range []string{gvisor.ProgramName, gvisor.FirstName} {
		if err := host.Trusted(filepath.Join(from, name)); err != nil {
			return "", err
		}
	}
	return from, nil
}
