package docker_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/plan"
	"cloister/sandbox/remount"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// seen notes the Spec that its driver starts.
type seen struct {
	onImage
	spec sandbox.Spec
}

func (d *seen) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	d.spec = s
	return d.onImage.Start(ctx, s, w)
}

// TestEngineMountsArePlanned: everything that the plan mounts is mounted, each as often as the plan
// says besides what the engine mounted there.
func TestEngineMountsArePlanned(t *testing.T) {
	root := sandbox.Root{Dir: sandbox.HostPath(system.Make(t)), ID: digest("0124")}
	d := &seen{onImage: onImage{docker.New(options(t)), root}}
	h := sandboxtest.New(t, d)
	h.Write(t, ".envrc", "original")
	out := h.Run(t, sandboxtest.Options{}, "cat", "/proc/self/mountinfo")
	if out.Err != nil || out.Status.ExitCode() != 0 {
		t.Fatalf("%+v", out)
	}
	file := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(file, []byte(out.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := remount.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, m := range list {
		left[m.At]++
	}
	covers := 0
	for _, one := range plan.Of(d.spec, plan.Facts{Base: plan.OnEngine, CPUs: true}) {
		at := ""
		switch s := one.(type) {
		case plan.Bind:
			at = string(s.Target)
			if at != plan.CPUs {
				left[at]-- // the engine's, which the gate has laid its copy on
			}
		case plan.Terminals:
			at = "/dev/pts"
			left[at]--
		case plan.Memory:
			at = s.Path
		case plan.Null:
			at = s.Path
		case plan.Cover:
			at = string(s.Target)
			covers++
		default:
			continue
		}
		if left[at]--; left[at] < 0 {
			t.Errorf("%s: the box has too few mounts for %T", at, one)
		}
	}
	if covers < 5 {
		t.Errorf("the plan covers %d paths, which is too few to be one", covers)
	}
}
