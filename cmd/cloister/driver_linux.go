package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/images"
	"cloister/cmd/cloister/machines"
	"cloister/cmd/cloister/pods"
	"cloister/internal/standin"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/gvisor"
	"cloister/sandbox/localuser"
	"cloister/sandbox/native"
	"cloister/session"
	"cloister/session/doctor"
	"cloister/session/terminal"
	"cloister/workspace/review"
	"cloister/workspace/stubs"
)

// drivers are the ways of building an enclosure on this system, the preferred
// first. One begins to work when it is made.
func (a *app) drivers() []doctor.Level {
	return []doctor.Level{
		{Name: "native", Make: func() (sandbox.Driver, error) {
			dirs, err := a.Dirs()
			if err != nil {
				return nil, err
			}
			return native.New(dirs.Runtime), nil
		}},
		{Name: localuser.Name, Make: func() (sandbox.Driver, error) { return localDriver(), nil }},
		{Name: "docker", Make: func() (sandbox.Driver, error) { return cli.Made(images.Engine(&a.App)) }},
		{Name: "gvisor", Make: a.gvisorDriver},
		{Name: machines.Level, Make: func() (sandbox.Driver, error) { return cli.Made(machines.Driver(&a.App)) }},
		{Name: pods.Level, Make: func() (sandbox.Driver, error) { return cli.Made(pods.Driver(&a.App)) }},
	}
}

func localDriver() *localuser.Driver { return localuser.New(localuser.Socket, cli.Version()) }

// automatic is the level of --isolation auto: native, which keeps every promise with nothing
// of root's; where this user gets no user namespace for it, the one that root's helper builds.
// why says then what native lacks.
func (a *app) automatic() (level string, why error) {
	if a.UID == 0 || !localDriver().There() {
		return "native", nil
	}
	if why = native.Refusal(); why == nil {
		return "native", nil
	}
	return localuser.Name, why
}

// gvisorDriver looks for the kernel's program beside this one, where setup puts it, and
// on PATH.
func (a *app) gvisorDriver() (sandbox.Driver, error) {
	dirs, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	folders := []string{gvisor.FolderIn(dirs.Data)}
	if self, err := os.Executable(); err == nil {
		folders = append([]string{filepath.Dir(self)}, folders...)
	}
	folders = append(folders, filepath.SplitList(host.Path(a.Env.Get("PATH")))...)
	return gvisor.New(gvisor.Options{Instance: dirs.Runtime, Folders: folders, Trusted: host.TrustedFile}), nil
}

// sweep removes what dead sessions left on the host.
func (a *app) sweep(d xdg.Dirs) func(context.Context, []string) error {
	return func(ctx context.Context, live []string) error {
		return errors.Join(
			native.Leftovers(d.Runtime, func(id string) bool { return slices.Contains(live, id) }),
			docker.New(docker.Options{Dir: images.Sockets(d)}).Leftovers(ctx),
			stubs.Sweep(locksDir(d)),
			standin.Sweep(d.Data),
			terminal.SweepDoors(d.Runtime, live),
			session.SweepReviews(ctx, review.In(d.State)),
			pods.Sweep(ctx, &a.App, d, live),
		)
	}
}
