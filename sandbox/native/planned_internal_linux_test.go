package native

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/sandbox"
	"cloister/sandbox/plan"
	"cloister/sandbox/remount"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/system"
)

// seen notes the Spec that its driver starts.
type seen struct {
	*Driver
	root sandbox.Root
	spec sandbox.Spec
}

func (d *seen) Start(ctx context.Context, s sandbox.Spec, w sandbox.Wiring) (sandbox.Box, error) {
	s.Root = d.root
	d.spec = s
	return d.Driver.Start(ctx, s, w)
}

// TestMountsArePlanned: what a box has mounted is what its plan says, all of it and nothing
// else. The kernel lists mounts by their age, and root's are older than their places.
func TestMountsArePlanned(t *testing.T) {
	for name, image := range map[string]string{"on the host's system": "", "on an image": system.Make(t, "cat")} {
		t.Run(name, func(t *testing.T) {
			d := &seen{Driver: New("test"), root: sandbox.Root{Dir: sandbox.HostPath(image)}}
			h := sandboxtest.New(t, d)
			h.Write(t, ".envrc", "original")
			h.Write(t, ".git/config", "")
			inside := filepath.Join(t.TempDir(), "inside")
			out := h.Run(t, sandboxtest.Options{}, "cat", "/proc/self/mountinfo")
			if out.Err != nil || out.Status.ExitCode() != 0 {
				t.Fatalf("%+v", out)
			}
			if err := os.WriteFile(inside, []byte(out.Stdout), 0o600); err != nil {
				t.Fatal(err)
			}
			f := &view{image: image, made: map[string]bool{"/": true}}
			facts, err := f.facts()
			if err != nil {
				t.Fatal(err)
			}
			want := mountsOf(plan.Of(d.spec, facts))
			var got []string
			for _, at := range mountedIn(t, inside) {
				if !below(at, d.spec.Binds, mountedIn(t, "/proc/self/mountinfo")) {
					got = append(got, at)
				}
			}
			if len(want) < 20 {
				t.Errorf("the plan has %d mounts, which is too few to be one", len(want))
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not what the plan says (-plan +box):\n%s", diff)
			}
		})
	}
}

// mountsOf are the places on which a plan mounts something.
func mountsOf(steps []plan.Step) (out []string) {
	for _, one := range steps {
		at := ""
		switch s := one.(type) {
		case plan.Root:
			at = "/"
		case plan.Bind:
			at = string(s.Target)
		case plan.Device:
			at = "/dev/" + s.Name
		case plan.Proc:
			at = "/proc"
		case plan.Terminals:
			at = "/dev/pts"
		case plan.Memory:
			at = s.Path
		case plan.Same:
			at = s.Path
		case plan.Null:
			at = s.Path
		case plan.Cover:
			at = string(s.Target)
		default:
			continue
		}
		out = append(out, at)
	}
	return out
}

func mountedIn(t *testing.T, file string) (out []string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := remount.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		out = append(out, m.At)
	}
	return out
}

// below reports whether a mount came along with a folder that the host has it in.
func below(at string, binds []sandbox.Bind, host []string) bool {
	system := []sandbox.Bind{{Source: "/usr", Target: "/usr"}, {Source: "/opt", Target: "/opt"}}
	return slices.ContainsFunc(slices.Concat(system, binds), func(b sandbox.Bind) bool {
		rest, ok := strings.CutPrefix(at, string(b.Target)+"/")
		return ok && slices.Contains(host, string(b.Source)+"/"+rest)
	})
}
