package docker_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// onJudged has what it starts judged by a double.
type onJudged struct {
	onImage
	judge sandbox.Judging
}

func (d onJudged) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	w.Judge = d.judge
	return d.onImage.Start(ctx, s, w)
}

type closed struct{ n atomic.Int32 }

func (c *closed) Close() error {
	c.n.Add(1)
	return nil
}

// TestEngineJudged: what judges a container has its own control group before the command runs, ends with
// it, ends it where it fails or is lost; and where there is no such group nothing starts.
func TestEngineJudged(t *testing.T) {
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t, "sh", "sleep")), ID: digest("77dd")}
	d := docker.New(o)
	refusal := &sandbox.Unsupported{Guarantee: "a double", Reason: "it refuses"}
	for name, c := range map[string]struct{ refuses, loses bool }{"judges": {}, "refuses": {refuses: true}, "is lost": {loses: true}} {
		t.Run(name, func(t *testing.T) {
			var began, ended closed
			judge := func(_ context.Context, group string, pid int, s sandbox.Spec, lost func(error)) (io.Closer, error) {
				began.n.Add(1)
				at, err := cgroup.PathOf(pid)
				if err != nil || filepath.Join(cgroup.Root, at) != group || !s.InKernel {
					t.Errorf("judged is %s of %+v; the first process is in %s, %v", group, s, at, err)
				}
				if c.refuses {
					return nil, refusal
				}
				if c.loses {
					go lost(errors.New("the double is gone"))
				}
				return &ended, nil
			}
			script := "echo ran"
			if c.loses {
				script = "echo ran; sleep 100000" // until it is ended
			}
			out := sandboxtest.New(t, onJudged{onImage{d, root}, judge}).Run(t,
				sandboxtest.Options{Change: func(s *sandbox.Spec) { s.InKernel = true }}, "sh", "-c", script)
			ran := strings.Contains(out.Stdout, "ran")
			u, unsupported := errors.AsType[*sandbox.Unsupported](out.Err)
			switch {
			case !cgroup.Unified():
				if began.n.Load() > 0 || ran || !unsupported || u.Guarantee != "files and programs judged by the kernel" {
					t.Errorf("with groups of version 1: %+v", out)
				}
			case c.refuses:
				if ran || !errors.Is(out.Err, refusal) || ended.n.Load() > 0 {
					t.Errorf("%+v, ended %d", out, ended.n.Load())
				}
			case c.loses:
				if out.Err == nil || !strings.Contains(out.Err.Error(), "the double is gone") || ended.n.Load() != 1 {
					t.Errorf("%+v, ended %d", out, ended.n.Load())
				}
			default:
				if out.Err != nil || !ran || began.n.Load() != 1 || ended.n.Load() != 1 {
					t.Errorf("%+v, began %d, ended %d", out, began.n.Load(), ended.n.Load())
				}
			}
			if left := containers(t, docker.Instance(d)); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}
