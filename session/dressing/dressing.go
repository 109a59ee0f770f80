// Package dressing gives a run what its devcontainer says: variables, places, limits, the
// commands before the person's, and the services beside it.
//
// The promise: a devcontainer adds to a run what it may, and never takes a person's word's
// place: limits are the lesser, a published port is the person's, a folder that an image has
// stays. A run without one has a nil Dressing, of which nothing comes.
//
// It reads no devcontainer, judges nothing and starts nothing.
//
// Most readers want [Dressing].
package dressing

import (
	"context"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"cloister/api"
	"cloister/config"
	"cloister/devcontainer"
	"cloister/devcontainer/lifecycle"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/beside"
	"cloister/workspace"
)

// Dressing is what of a devcontainer applies to a run.
type Dressing struct {
	devcontainer.Effective
	// Beside are its services; nil for none.
	Beside *beside.Plan
}

// Peers are the cloisters beside the run's.
func (d *Dressing) Peers() *sandbox.Peers {
	if d == nil {
		return nil
	}
	return d.Beside.Peers()
}

// Fit leaves out the paths at which the image has a folder: a link cannot lie there. root is
// where the image is unpacked.
func (d *Dressing) Fit(root string, say func(string)) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("open the image: %w", err)
	}
	defer r.Close()
	taken := func(at string) bool {
		fi, err := r.Stat(at[1:])
		return err == nil && fi.IsDir()
	}
	d.Folders = slices.DeleteFunc(d.Folders, func(at string) bool {
		if taken(at) {
			say("the image has a folder at " + at + ": the project is at its own path")
			return true
		}
		return false
	})
	d.Volumes = slices.DeleteFunc(d.Volumes, func(v devcontainer.Volume) bool {
		if taken(v.Target) {
			say("the image has a folder at " + v.Target + ": the volume " + v.Name + " is not there")
			return true
		}
		return false
	})
	return nil
}

// Forward adds the ports that are free on this machine to those that a person published.
func Forward(ctx context.Context, published []string, ports []uint16, say func(string)) []string {
	for _, p := range ports {
		number := strconv.Itoa(int(p))
		if slices.ContainsFunc(published, func(typed string) bool {
			known, err := session.ParsePublished(typed)
			return err == nil && (known.Port == p || known.HostPort == p)
		}) {
			continue // the person's word
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", number))
		if err != nil {
			say("port " + number + " of the devcontainer is taken on this machine, and not forwarded")
			continue
		}
		_ = l.Close() // it was only looked for
		published = append(published, number)
	}
	return published
}

// Narrow is a configuration with what customizations.cloister takes away, as of a
// repository's file that no one agreed to, and that file.
func (d *Dressing) Narrow(cfg *config.Config, root string) (*config.Config, []api.ProjectFile, error) {
	if d == nil || d.Narrowed == nil {
		return cfg, nil, nil
	}
	name := filepath.Join(root, "devcontainer.json#customizations.cloister")
	own, err := config.ParseProject(name, d.Narrowed)
	if err != nil {
		return nil, nil, err
	}
	return own.Narrowed().Over(cfg, true), []api.ProjectFile{{Name: name, Text: string(d.Narrowed), Narrowed: true}}, nil
}

// Limit holds a run to the limits of its devcontainer, where they are less.
func (d *Dressing) Limit(l sandbox.Limits) sandbox.Limits {
	if d == nil {
		return l
	}
	return l.Least(sandbox.Limits{Memory: int64(d.Memory), CPUs: d.CPUs, Pids: d.Pids})
}

// Show adds to a view where the project is found besides its own path.
func (d *Dressing) Show(o *workspace.Options) {
	if d != nil {
		o.Folders = append(o.Folders, d.Folders...)
	}
}

// Dress gives a session the devcontainer's part: PATH, volumes, and the commands before the
// person's.
func (d *Dressing) Dress(s *session.Shim) {
	if d == nil {
		return
	}
	if len(d.Path) > 0 {
		s.Path = d.Path
	}
	s.Argv = lifecycle.Script(d.Lifecycle, s.Argv)
	for _, v := range d.Volumes {
		dir := path.Join(lifecycle.VolumesDir, v.Name)
		s.Volumes = append(s.Volumes, session.Volume{At: sandbox.GuestPath(v.Target), Dir: dir})
	}
}

// Start starts the services, where there are any: driver is asked for then alone.
func (d *Dressing) Start(
	ctx context.Context, s *session.Shim, driver func() (sandbox.Driver, error),
) (*beside.Set, error) {
	if d == nil || d.Beside == nil {
		return nil, nil
	}
	by, err := driver()
	if err != nil {
		return nil, err
	}
	return d.Beside.Start(ctx, s, by)
}
