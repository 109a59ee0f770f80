package native_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// A list that is left to the kernel's judge is no list where nothing judges: no such command starts.
func TestUnjudged(t *testing.T) {
	permits := sandbox.Permits{Opens: true, Programs: true, List: []sandbox.Permit{{Path: "/usr", Dir: true, Read: true, Exec: true}}}
	for name, change := range map[string]func(*sandbox.Spec){
		"a list":      func(s *sandbox.Spec) { s.InKernel, s.Permits = true, permits },
		"a forbid":    func(s *sandbox.Spec) { s.Judged = []sandbox.Judged{{Path: "/usr/bin/true", Rule: "r", Exec: true}} },
		"a mode":      func(s *sandbox.Spec) { s.InKernel, s.Watched = true, sandbox.Watched{Programs: true, All: true} },
		"with limits": func(s *sandbox.Spec) { s.InKernel, s.Permits, s.Limits.CPUs = true, permits, 1 },
		// Who gives up limits does not give up the judge.
		"limits that were given up": func(s *sandbox.Spec) {
			s.InKernel, s.Permits, s.Limits.CPUs, s.Accepted = true, permits, 1, []string{"cgroup-limits"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := sandboxtest.New(t, native.New("test"))
			out := h.Run(t, sandboxtest.Options{Change: change}, "touch", "ran")
			refused(t, out.Err)
			if _, err := os.Stat(filepath.Join(h.Project, "ran")); err == nil {
				t.Error("the command ran")
			}
		})
	}
	h := sandboxtest.New(t, native.New("test"))
	if out := h.Run(t, sandboxtest.Options{}, "touch", "ran"); out.Err != nil || out.Status.ExitCode() != 0 {
		t.Errorf("the control: %+v", out)
	}
}

// What joins a cloister that no kernel judges is refused where it was to be judged.
func TestUnjudgedJoins(t *testing.T) {
	for name, judged := range map[string]bool{"judged": true, "the control": false} {
		t.Run(name, func(t *testing.T) {
			h := sandboxtest.New(t, native.New("test"))
			var spec sandbox.Spec
			out := h.Run(t, sandboxtest.Options{Stdin: "", Change: func(s *sandbox.Spec) { spec = *s }, During: func(b sandbox.Box) {
				defer b.Close()
				spec.Argv, spec.InKernel = []string{"touch", "ran"}, judged
				null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer null.Close()
				e, err := h.Driver.Exec(t.Context(), b.Handle(), spec, sandbox.Wiring{Stdin: null, Stdout: null, Stderr: null})
				if judged {
					refused(t, err)
				} else if err != nil {
					t.Error(err)
				} else if status, err := e.Wait(); err != nil || status.ExitCode() != 0 {
					t.Errorf("%+v, %v", status, err)
				}
				if _, err := os.Stat(filepath.Join(h.Project, "ran")); (err == nil) == judged {
					t.Errorf("the command that joined: %v", err)
				}
			}}, "sleep", "1000")
			_ = out // it was ended
		})
	}
}

func refused(t *testing.T, err error) {
	t.Helper()
	var u *sandbox.Unsupported
	if !errors.As(err, &u) || !strings.Contains(u.Guarantee, "judged by the kernel") || u.Fix == "" {
		t.Errorf("it is not refused: %v", err)
	}
}

// judgedBy is the driver with a judge of the test's.
type judgedBy struct {
	*native.Driver
	judge sandbox.Judging
}

func (d judgedBy) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	w.Judge = d.judge
	return d.Driver.Start(ctx, s, w)
}

// A judge that cannot begin has the command not run, and one that is lost ends it where it stands.
func TestLosesItsJudge(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes control groups")
	}
	broken := errors.New("it cannot begin")
	h := sandboxtest.New(t, judgedBy{native.New("test"), func(context.Context, string, int, sandbox.Spec, func(error)) (io.Closer, error) {
		return nil, broken
	}})
	change := func(s *sandbox.Spec) { s.InKernel = true }
	if !cgroup.Unified() && !cgroup.Is(cgroup.Root+"/unified") {
		refused(t, h.Run(t, sandboxtest.Options{Change: change}, "true").Err)
		return // control groups of version 2 are not mounted
	}
	if out := h.Run(t, sandboxtest.Options{Change: change}, "touch", "ran"); !errors.Is(out.Err, broken) {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(filepath.Join(h.Project, "ran")); err == nil {
		t.Error("the command ran though its judge could not begin")
	}

	gone := errors.New("the judge is gone")
	var lose func(error)
	var group string
	closed := make(chan struct{})
	h = sandboxtest.New(t, judgedBy{native.New("test"), func(_ context.Context, at string, _ int, _ sandbox.Spec, lost func(error)) (io.Closer, error) {
		group, lose = at, lost
		return closer(func() { close(closed) }), nil
	}})
	out := h.Run(t, sandboxtest.Options{Change: change, During: func(sandbox.Box) {
		if err := os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte("1"), 0); err != nil {
			t.Error(err)
		}
		lose(gone)
	}}, "sh", "-c", "while :; do :; done")
	if !errors.Is(out.Err, gone) {
		t.Errorf("it went on: %+v", out)
	}
	<-closed
	if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its group: %v", err)
	}
}

type closer func()

func (c closer) Close() error { c(); return nil }
