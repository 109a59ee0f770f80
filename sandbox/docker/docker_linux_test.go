package docker_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cloister/internal/needs"
	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// engineSocket is the engine that tests use: one of their own, never the
// machine's.
func engineSocket(t testing.TB) string {
	t.Helper()
	socket := os.Getenv("CLOISTER_TEST_ENGINE")
	if socket == "" {
		needs.Missing(t, "docker", errors.New("CLOISTER_TEST_ENGINE names no engine's socket; script/test docker starts one for these tests"))
	}
	return socket
}

// program is a helper without libraries: a test binary is none with the race
// detector.
var program = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("CLOISTER_TEST_BINARY"); built != "" {
		return built, nil
	}
	dir, err := os.MkdirTemp("", "cloister-inside")
	if err != nil {
		return "", err
	}
	made = dir
	file := filepath.Join(dir, "inside")
	c := exec.Command("go", "build", "-o", file, "./testdata/inside") //nolint:forbidigo // ends by itself, and serves every test
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if text, err := c.CombinedOutput(); err != nil {
		return string(text), err
	}
	return file, os.Chmod(dir, 0o755)
})

// made is a folder to be removed at the end.
var made string

func TestMain(m *testing.M) {
	code := m.Run()
	if made != "" {
		os.RemoveAll(made)
	}
	os.Exit(code)
}

// options are those of a driver of this test's own.
func options(t testing.TB) docker.Options {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	dir, err := os.MkdirTemp("", "cd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return docker.Options{Socket: engineSocket(t), Dir: filepath.Join(dir, "d"), Program: file}
}

// onImage starts everything on one image.
type onImage struct {
	*docker.Driver
	root sandbox.Root
}

func (d onImage) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	s.Root = d.root
	return d.Driver.Start(ctx, s, w)
}

func TestEngineDriver(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t)), ID: digest("0123")}
	sandboxtest.Run(t, func() sandbox.Driver { return onImage{docker.New(o), root} })
}

// digest is a whole one, which every engine takes for an image's.
func digest(part string) string { return "sha256:" + strings.Repeat(part, 16) }
