package gated_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/bench/gated"
	"cloister/internal/needs"
)

const insideWord = "CLOISTER_GATED_INSIDE"

// apart runs a test once more in a mount namespace of its own, which takes its mounts with it
// when it ends. It reports whether this is that run.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideWord) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=29m")
	cmd.Env = append(os.Environ(), insideWord+"=1", "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWUSER, UidMappings: one(os.Geteuid()), GidMappings: one(os.Getegid()),
		}
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if os.Getenv("CLOISTER_GATED") != "" {
		cmd.Stdout = io.MultiWriter(&out, os.Stderr) // figures of minutes, as they come
	}
	cmd.Stderr = cmd.Stdout
	err := cmd.Run()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		needs.Missing(t, "userns", err)
	}
	t.Logf("%s", out.String())
	if err != nil || !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Fatalf("apart: %v", err)
	}
	return false
}

// sides are a project and its view, with the writer between them.
type sides struct {
	project, upper, view, stage string
	w                           *gated.Writer
	end                         func() // the writer's, the mount's and the folder's, once
}

// lay mounts a view of a project, as the native driver does (sandbox/native).
func lay(t *testing.T) *sides {
	t.Helper()
	top, err := os.MkdirTemp("", "gated") // a name without commas, which part the options of a mount
	if err != nil {
		t.Fatal(err)
	}
	s := &sides{
		project: filepath.Join(top, "project"), upper: filepath.Join(top, "upper"),
		view: filepath.Join(top, "view"), stage: filepath.Join(top, "stage"),
	}
	work := filepath.Join(top, "work")
	for _, dir := range []string{s.project, s.upper, s.view, s.stage, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s", s.project, s.upper, work)
	if err := unix.Mount("overlay", s.view, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		needs.Missing(t, "overlay", err)
	}
	s.end = sync.OnceFunc(func() {
		if s.w != nil {
			if err := s.w.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := unix.Unmount(s.view, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(top) // what is closed in it goes with the parent's folder
	})
	t.Cleanup(s.end)
	return s
}

func (s *sides) open(t *testing.T, how gated.Learn, ungated bool) {
	t.Helper()
	w, err := gated.Open(t.Context(), gated.Options{
		Project: s.project, Upper: s.upper, View: s.view, Stage: s.stage, Learn: how, Ungated: ungated,
	})
	if how == gated.Fanotify && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP)) {
		needs.Missing(t, "fanotify", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.w = w
}

// put writes files: a path and its content, in turns.
func put(t *testing.T, top string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		at := filepath.Join(top, files[i])
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// patience is for a busy machine.
const patience = time.Minute

// until waits for something that the writer does.
func until(t *testing.T, what string, true func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !true() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

// has reports whether a file has a content.
func has(name, text string) bool {
	got, err := os.ReadFile(name)
	return err == nil && string(got) == text
}

// tree is all that a folder has, each entry a line.
func tree(t *testing.T, top string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ESTALE) {
			return nil // it changes while it is looked at
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil || rel == "." {
			return err
		}
		if rel == ".cloister-gated" {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESTALE) {
			return nil
		}
		if err != nil {
			return err
		}
		switch fi.Mode().Type() {
		case 0:
			text, err := os.ReadFile(name)
			if err != nil {
				text = []byte(err.Error())
			}
			fmt.Fprintf(&out, "%s %s %q\n", rel, fi.Mode(), text)
		case fs.ModeSymlink:
			to, _ := os.Readlink(name)
			fmt.Fprintf(&out, "%s -> %s\n", rel, to)
		default:
			fmt.Fprintf(&out, "%s %s\n", rel, fi.Mode().Type())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// alike waits until both sides have the same.
func (s *sides) alike(t *testing.T) {
	t.Helper()
	var host, view string
	defer func() {
		if t.Failed() {
			t.Errorf("waiting %v\nproject:\n%s\nview:\n%s", s.w.Waiting(), host, view)
		}
	}()
	until(t, "both sides are alike", func() bool {
		host, view = tree(t, s.project), tree(t, s.view)
		return host == view
	})
}

// waits waits until the writer tells a path with that reason.
func (s *sides) waits(t *testing.T, path, why string) {
	t.Helper()
	until(t, path+" waits", func() bool {
		for _, told := range s.w.Waiting() {
			if told.Path == path && strings.Contains(told.Why, why) {
				return true
			}
		}
		return false
	})
}
