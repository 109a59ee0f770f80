package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/overlays"
	"cloister/config"
	"cloister/git"
	"cloister/guardian/folders"
	"cloister/host/resolve"
	"cloister/hostexec/hostrules"
	"cloister/internal/xdg"
	"cloister/policyset"
	"cloister/sandbox"
	"cloister/sandbox/image/chosen"
	"cloister/session"
	"cloister/session/heldpath"
	"cloister/session/javastore"
	"cloister/session/launch"
	"cloister/session/memory"
	"cloister/workspace"
	"cloister/workspace/projects"
	"cloister/workspace/review"
	"cloister/workspace/worktrees"

	"golang.org/x/term"
)

// shim gathers everything that a run depends on, from flags, configuration and
// environment, and reaches the guardian.
func (a *app) shim(ctx context.Context, f *runFlags, argv []string) (_ *session.Shim, dirs xdg.Dirs, err error) {
	dirs, err = a.Dirs()
	if err != nil {
		return nil, dirs, err
	}
	cfg, sources, err := config.Load(dirs.Config)
	if err != nil {
		return nil, dirs, err
	}
	bare := *f
	if f.dev, err = a.devcontainers().Dress(ctx, &f.Order, cfg.Defaults, dirs); err != nil {
		return nil, dirs, err
	}
	typed := *f
	f.Fill(cfg)
	asked := *f
	// What every cloister has is built while this one is being found out about.
	user := a.payload()
	g, err := a.begin(ctx, f, dirs, user)
	if err != nil {
		return nil, dirs, err
	}
	defer func() {
		if err != nil && g.begun != nil {
			err = errors.Join(err, g.begun.Close())
		}
	}()
	home := a.RealHome()
	host, err := a.Resolver(dirs)
	if err != nil {
		return nil, dirs, err
	}
	project, err := a.project(ctx, f, dirs, home, host)
	if err != nil {
		return nil, dirs, err
	}
	words, err := a.OfProject(dirs, host.Places(), project, cfg)
	if err != nil {
		return nil, dirs, err
	}
	if own := words.Config.Defaults; own.Devcontainer != cfg.Defaults.Devcontainer && f.Devcontainer == "" {
		typed = bare // the project has a word about it
		if typed.dev, err = a.devcontainers().Dress(ctx, &typed.Order, own, dirs); err != nil {
			return nil, dirs, err
		}
		f.dev = typed.dev
	}
	var own []api.ProjectFile
	if words.Config, own, err = f.dev.Narrow(words.Config, string(project.Root)); err != nil {
		return nil, dirs, err
	}
	cfg, words.Files = words.Config, append(words.Files, own...)
	if words.Waits {
		a.TellNarrowed()
	}
	a.SayOuter(words.Outer)
	image := f.Image // as the driver knows it
	*f = typed
	if f.Fill(cfg); f.Isolation == asked.Isolation && f.Image == asked.Image {
		f.Image = image
	} else {
		// The project has a word about it: the ground is another.
		if err := g.begun.Close(); err != nil {
			return nil, dirs, err
		}
		if g, err = a.begin(ctx, f, dirs, user); err != nil {
			return nil, dirs, err
		}
	}
	if f.Workspace == string(config.WorkspaceGit) { // by the project's word
		if err := clonable(f, project); err != nil {
			return nil, dirs, err
		}
	}
	driver, root := g.driver, g.root
	facts := a.facts(ctx, dirs, host, words, sources, root)
	facts.Project, facts.Isolation = string(project.Root), driver.Name()
	_, facts.Elsewhere = driver.(sandbox.Elsewhere)
	if f.dev != nil {
		facts.Given = f.dev.Env
	}
	plan, err := launch.Resolve(f.Order, facts)
	a.Notices(plan.Notices)
	if err != nil {
		return nil, dirs, err
	}
	view := plan.View
	f.dev.Show(&view)
	if f.Workspace == string(config.WorkspaceOverlay) {
		f.Name = cmp.Or(f.Name, overlays.NewName(f.Verb == "start", string(project.Root)))
		if f.kept, err = overlays.Begin(dirs, string(project.Root), f.Name, overlays.Worker(f.Agent, argv)); err != nil {
			return nil, dirs, err
		}
		view.Uppers = overlays.Uppers(f.kept.Mount)
	}
	c, err := a.Ensure(ctx)
	if err != nil {
		return nil, dirs, err
	}
	a.Log().Debug("ask for a session", "project", project.Root, "isolation", driver.Name(), "mode", f.Mode, "workspace",
		f.Workspace, "config", sources.File, "found", sources.Found, "command", argv)
	return a.assemble(f, argv, parts{
		dirs: dirs, cfg: cfg, words: words, project: project, home: home, ground: g, facts: facts, plan: plan, view: view,
	}, c), dirs, nil
}

// parts are what a shim is made of, once all of it is known.
type parts struct {
	ground
	dirs    xdg.Dirs
	cfg     *config.Config // with the project's word
	words   projects.Settings
	project workspace.Project
	home    string
	facts   launch.Facts
	plan    launch.Plan
	view    workspace.Options
}

// assemble makes the shim of a run, for the guardian that c reaches.
func (a *app) assemble(f *runFlags, argv []string, p parts, c *client.Client) *session.Shim {
	plan, project, driver := p.plan, p.project, p.driver
	s := &session.Shim{
		Reviews: review.In(p.dirs.State),
		Client:  c, Begun: p.begun, Project: project, View: p.view, Argv: argv, Env: plan.Env,
		Term:   session.LocaleOf(a.Env.Get, term.IsTerminal(int(a.Stdin.Fd()))),
		Caller: a.hostCaller(p.cfg, f), Commands: p.cfg.Hostexec.Any(), Turns: f.kept != nil,
		User: plan.User, Judge: plan.Judge, Judged: plan.Judged, Permits: plan.Permits, Watched: plan.Watched,
		Restate: plan.Restater(f.Order, p.facts),
		Limits:  f.dev.Limit(plan.Limits), Root: p.root, Path: p.path,
		CAFile: sandbox.HostPath(plan.CAFile), CA: plan.CA, Java: javastore.OfHost(),
		Sums:   filepath.Join(p.dirs.Runtime, "java.sum"),
		Author: workspace.FindAuthor(p.home, project.Git), Submodules: workspace.Unregistered(project.Root, project.Git),
		Denied: []string{folders.Socket(p.dirs), folders.Audit(p.dirs), "/run/docker.sock", "/run/dbus"},
		Stdin:  a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Timeout: f.Timeout,
		Request: plan.Request(f.Order, argv),
	}
	s.Request.Project, s.Request.Path, s.Request.Branch = string(project.Main), string(project.Root), project.Git.Branch()
	s.Request.Isolation, s.Request.Image = driver.Name(), p.root.ID
	s.Request.Projects, s.Request.ShimPID = p.words.Files, os.Getpid()
	s.Request.Memory, s.Order = p.memory, f.Again(project, argv, plan.Cedar)
	s.Shims, s.Remotes = hostrules.Shims(p.cfg.Hostexec)
	if f.Workspace == string(config.WorkspaceGit) {
		s.Clones = project.Git.Branch()
	}
	f.dev.Dress(s)
	if slow, ok := driver.(sandbox.SlowStarter); ok {
		s.StartWithin = slow.StartWithin()
	}
	if !a.Quiet {
		s.Notify = func(text string) { a.Notice("cloister: %s", text) }
		s.Held = heldpath.ForCommand(string(project.Root), f.Verb, argv)
	}
	return s
}

// facts are what an order meets here.
func (a *app) facts(
	ctx context.Context, dirs xdg.Dirs, host *resolve.Resolver, words projects.Settings, sources config.Sources,
	root sandbox.Root,
) launch.Facts {
	return launch.Facts{
		Config: words.Config, Cedar: policyset.CedarFiles(sources), Outer: words.Outer, Root: root,
		Host: host, Dirs: dirs, Locks: locksDir(dirs), KeepOut: launch.KeepOut(dirs),
		Home: a.Home(), RealHome: a.RealHome(), UID: a.UID, Env: a.Env,
		Git: a.Obeys(ctx, dirs, host).Git,
	}
}

// ground is what of a cloister does not depend on its project.
type ground struct {
	driver sandbox.Driver
	root   sandbox.Root
	path   []string
	begun  sandbox.Begun
	memory *api.Memory // that the box goes on from
}

func (a *app) begin(ctx context.Context, f *runFlags, dirs xdg.Dirs, user sandbox.User) (ground, error) {
	driver, err := a.driverNamed(f.Isolation)
	if err != nil {
		return ground{}, err
	}
	root, path, err := a.system(ctx, &f.Order, dirs, driver)
	if err != nil {
		return ground{}, err
	}
	begun, claim, err := memory.Begin(driver, f.From, f.passed, f.Accepted(), sandbox.Ground{
		User: user.ID, Root: root, Network: !f.NoNetwork, Peers: f.dev.Peers(),
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr,
	})
	return ground{driver, root, path, begun, claim}, err
}

// system is what --image or the configuration names as the system inside. The image cannot
// be removed while this process lives.
func (a *app) system(ctx context.Context, f *launch.Order, dirs xdg.Dirs,
	driver sandbox.Driver) (sandbox.Root, []string, error) {
	named, err := a.Tilde(f.Image)
	if err != nil {
		return sandbox.Root{}, nil, err
	}
	i, err := chosen.For(ctx, a.ImageStore(dirs), driver, named, a.Slow)
	if errors.Is(err, fs.ErrNotExist) {
		err = cli.Hinted(fmt.Errorf("%s: image %s: %w", f.Verb, named, err), "cloister image list shows those that are here")
	}
	if i.Hold != nil {
		a.Held = append(a.Held, i.Hold)
	}
	if f.Image == "" {
		f.Image = i.Name
	}
	return i.Root, i.Path, err
}

func (a *app) project(ctx context.Context, f *runFlags, dirs xdg.Dirs, home string,
	host *resolve.Resolver) (workspace.Project, error) {
	dir := f.Project
	if dir == "" {
		dir = "."
	}
	p, err := a.ProjectAt(dir, host)
	if err != nil {
		if fi, statErr := os.Stat(dir); f.Project != "" && (statErr != nil || !fi.IsDir()) {
			return p, cli.Usage("-C names the project's folder", f.Verb+": %v", err)
		}
		return p, err
	}
	if f.Workspace == string(config.WorkspaceGit) {
		if err := clonable(f, p); err != nil {
			return p, err
		}
	}
	if f.Branch != "" {
		if p, err = a.worktree(ctx, f, p, dirs, host); err != nil {
			return p, err
		}
	}
	accepted := f.Accepted()
	err = p.Check(workspace.Places{
		Home: home, State: launch.StateAround(dirs, string(p.Root)),
		Socket: []string{"/run/docker.sock", "/var/run/docker.sock"},
	}, func(residue string) bool { return slices.Contains(accepted, residue) })
	if err != nil || f.Workspace == "none" {
		return p, err
	}
	return p, a.same(f, host, p)
}

// clonable refuses a project of which no clone comes back.
func clonable(f *runFlags, p workspace.Project) error {
	no := func(why, fix string) error {
		return cli.Hinted(fmt.Errorf("%s: --workspace git: %s", f.Verb, why), fix)
	}
	switch {
	case p.Git == nil:
		return no("this is no repository", "make one: git init, then a first commit")
	case p.Git.Branch() == "":
		return no("no branch is checked out, and a clone begins with one", "git switch BRANCH")
	case f.Branch != "":
		return no("its branch is cloister/NAME, and -b makes a worktree here", "leave -b out, and name it: --name NAME")
	case f.Name != "" && !git.OwnsBranch(f.Name):
		return no("cloister/"+f.Name+" is no branch of its own: git does not take the name, or another session's commits "+
			"could be called so", "another --name NAME")
	case f.NoNetwork:
		return no("the clone comes by the gate", "leave --no-network out: policy refuses all else")
	}
	return nil
}

// worktree is the project's working tree of the branch that was typed.
func (a *app) worktree(ctx context.Context, f *runFlags, p workspace.Project, dirs xdg.Dirs,
	host *resolve.Resolver) (workspace.Project, error) {
	trees, err := worktrees.Of(p, host, dirs.Data, locksDir(dirs))
	if errors.Is(err, worktrees.ErrNoRepository) {
		return p, cli.Hinted(fmt.Errorf("%s: -b %s: %w", f.Verb, f.Branch, err), "make one: git init, then a first commit")
	}
	if err != nil {
		return p, err
	}
	path, made, err := trees.Open(ctx, f.Branch)
	if errors.Is(err, worktrees.ErrBranchName) {
		return p, cli.Usage("git help check-ref-format says what one may be", "%s: -b: %q is not a branch's name", f.Verb,
			f.Branch)
	}
	if err != nil {
		return p, err
	}
	if made {
		a.Notice("cloister: made the worktree %s", path)
		// What lay there before was removed with the worktree before.
		if err := host.Places().Forget(path); err != nil {
			return p, err
		}
		// Files carry times of a coarse clock, and the session takes what was
		// written 10 ms before it for its own: git's files are older then.
		<-time.After(20 * time.Millisecond)
	}
	return workspace.Find(path)
}

// payload is who the command is inside.
func (a *app) payload() sandbox.User { return launch.UserOf(a.UID, a.Env.Get("USER")) }
