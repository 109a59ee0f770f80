package gvisor

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// source is the module of the kernel's program, which is another one than this: each file
// after a line that names it. A test holds it to the folder kernel.
//
//go:embed kernel.txtar
var source string

// Commands gives a program of the host, ready to be run.
type Commands func(ctx context.Context, name string, args ...string) (*exec.Cmd, error)

// Build makes the kernel's program and the first process of its source, in a folder that
// is there and empty. It needs the Go toolchain, which fetches what the module is made of.
func Build(ctx context.Context, dir string, run Commands, log io.Writer) error {
	from := filepath.Join(dir, "source")
	for name, text := range unpacked(source) {
		at := filepath.Join(from, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return fmt.Errorf("build %s: %w", ProgramName, err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return fmt.Errorf("build %s: %w", ProgramName, err)
		}
	}
	for name, of := range map[string]string{ProgramName: ".", FirstName: "./first"} {
		c, err := run(ctx, "go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, name), of)
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		// With C it does not start.
		c.Dir, c.Env = from, append(c.Env, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		c.Stdout, c.Stderr = log, log
		if err := c.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// unpacked are the files of a text in which each is announced by "-- NAME --".
func unpacked(text string) map[string]string {
	out, name := map[string]string{}, ""
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(rest, " --\n") {
			name = strings.TrimSuffix(rest, " --\n")
			continue
		}
		out[name] += line
	}
	delete(out, "") // what stands before the first file
	return out
}

// Verify runs the programs of a folder, and refuses those of another version.
func Verify(ctx context.Context, dir string, run Commands) error {
	for name, want := range map[string]string{
		ProgramName: ProgramName + " " + Protocol + " gvisor " + Pin,
		FirstName:   FirstName + " " + Protocol,
	} {
		file := filepath.Join(dir, name)
		if err := usable(filepath.Join(dir, ProgramName)); err != nil {
			return err
		}
		c, err := run(ctx, file, "version")
		if err != nil {
			return fmt.Errorf("verify %s: %w", file, err)
		}
		text, err := c.Output()
		if err != nil {
			return fmt.Errorf("verify %s: %w", file, err)
		}
		if got := strings.TrimSpace(string(text)); got != want {
			return fmt.Errorf("verify %s: it is %q, %q is needed", file, got, want)
		}
	}
	return nil
}

// Install copies the programs of one folder to another, each at once.
func Install(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("install %s: %w", ProgramName, err)
	}
	for _, name := range []string{FirstName, ProgramName} {
		if err := copyProgram(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("install %s: %w", name, err)
		}
	}
	return nil
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Sync(), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return nil
}
