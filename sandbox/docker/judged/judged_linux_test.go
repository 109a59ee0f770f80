package judged_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/docker/judged"
)

// What nothing would keep is refused before anything is built.
func TestRefuse(t *testing.T) {
	judging := func(context.Context, string, int, sandbox.Spec, func(error)) (io.Closer, error) { return nil, nil }
	rules := []sandbox.Judged{{Path: "/x", Rule: "r"}}
	for name, c := range map[string]struct {
		s  sandbox.Spec
		w  sandbox.Wiring
		ok bool
	}{
		"nothing":           {sandbox.Spec{}, sandbox.Wiring{}, true},
		"rules, no judge":   {sandbox.Spec{Judged: rules}, sandbox.Wiring{}, false},
		"mode, no judge":    {sandbox.Spec{InKernel: true}, sandbox.Wiring{}, false},
		"rules and a judge": {sandbox.Spec{Judged: rules, InKernel: true}, sandbox.Wiring{Judge: judging}, true},
		"lists by nothing":  {sandbox.Spec{Permits: sandbox.Permits{Opens: true}}, sandbox.Wiring{Judge: judging}, false},
		"lists by a judge": {sandbox.Spec{Permits: sandbox.Permits{Opens: true}, InKernel: true},
			sandbox.Wiring{Judge: judging}, true},
	} {
		err := judged.Refuse(c.s, c.w)
		if _, unsupported := errors.AsType[*sandbox.Unsupported](err); unsupported == c.ok || (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A group that is not the container's own is not judged: that would be everything of the engine's.
func TestNoGroupOfItsOwn(t *testing.T) {
	w := sandbox.Wiring{Judge: func(context.Context, string, int, sandbox.Spec, func(error)) (io.Closer, error) {
		t.Error("it was judged")
		return nil, nil
	}}
	for name, c := range map[string]judged.Container{
		"this test's":   {PID: os.Getpid(), ID: strings.Repeat("ab", 32)},
		"no name":       {PID: os.Getpid()},
		"it has ended":  {PID: 1 << 30, ID: "x"},
		"of everything": {PID: 1, ID: "none"},
	} {
		_, err := judged.Begin(t.Context(), sandbox.Spec{InKernel: true}, w, c, func(error) {})
		u, ok := errors.AsType[*sandbox.Unsupported](err)
		if !ok || u.Fix == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Files of a command that joins are moved byte for byte, with what is written before its end.
func TestPiped(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	content := strings.Repeat("content\n", 50_000)
	if err := os.WriteFile(in, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, inErr := os.Open(in)
	stdout, outErr := os.Create(filepath.Join(dir, "out"))
	r, stderr, pipeErr := os.Pipe()
	if err := errors.Join(inErr, outErr, pipeErr); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{stdin, stdout, r, stderr} {
		defer f.Close()
	}
	w, p, err := judged.Piped(sandbox.Spec{InKernel: true}, sandbox.Wiring{Stdin: stdin, Stdout: stdout, Stderr: stderr})
	if err != nil {
		t.Fatal(err)
	}
	if w.Stdin == stdin || w.Stdout == stdout || w.Stderr != stderr {
		t.Fatal("a file was given, or a pipe was not")
	}
	// What was left running keeps the command's end, and holds nobody up.
	if _, err := io.Copy(w.Stdout, w.Stdin); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(stdout.Name())
	if err != nil || string(got) != content {
		t.Errorf("%d bytes of %d arrived, %v", len(got), len(content), err)
	}
}

// A command that reads none of its input, and leaves a process that has its output, ends.
func TestPipedLeft(t *testing.T) {
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, p, err := judged.Piped(sandbox.Spec{InKernel: true}, sandbox.Wiring{Stdin: zero, Stdout: out, Stderr: out})
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", w.Stdout.Fd()), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	if _, err := left.WriteString("left\n"); err != nil {
		t.Fatal(err)
	}
	p.Given()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(out.Name()); err != nil || string(got) != "left\n" {
		t.Errorf("%q arrived, %v", got, err)
	}
}
