package gvisor

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// FolderIn is where the program is installed, in an instance's folder of data.
func FolderIn(data string) string { return filepath.Join(data, "gvisor") }

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
	build := func(name, of, flags string) error {
		c, err := run(ctx, "go", "build", "-mod=readonly", "-trimpath", "-ldflags=-s -w"+flags,
			"-o", filepath.Join(dir, name), of)
		if err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		// With C it does not start.
		c.Dir, c.Env = from, append(c.Env, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		c.Stdout, c.Stderr = log, log
		if err := c.Run(); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		return nil
	}
	if err := errors.Join(build(FirstName, "./first", ""), build(ProgramName, ".", "")); err != nil {
		return err
	}
	text, err := filters(ctx, filepath.Join(dir, ProgramName), run)
	if err != nil {
		return err
	}
	return build(ProgramName, ".", " -X main.compiled="+text)
}

// filters asks a program for the filters of system calls that it would compile at each start.
func filters(ctx context.Context, program string, run Commands, words ...string) (string, error) {
	c, err := run(ctx, program, append(append(slices.Clone(flags), "filters"), words...)...)
	if err != nil {
		return "", fmt.Errorf("compile filters: %w", err)
	}
	text, err := c.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("compile filters: %s", bytes.TrimSpace(e.Stderr))
	} else if err != nil {
		return "", fmt.Errorf("compile filters: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
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

// Verify runs the programs of a folder, and refuses those of another version, and one whose
// filters of system calls are not what its gVisor compiles.
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
	program := filepath.Join(dir, ProgramName)
	if _, err := filters(ctx, program, run, "--check"); err != nil {
		return fmt.Errorf("verify %s: %w", program, err)
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
