package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cloister/agent"
	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/overlays"
	"cloister/config"
	"cloister/guardian"
	"cloister/host/resolve"
	"cloister/internal/realpath"
	"cloister/internal/shebang"
	"cloister/internal/shellword"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/dressing"
	"cloister/session/ending"
	"cloister/session/heldpath"
	"cloister/session/launch"
	"cloister/state/store"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/projects"
	"cloister/workspace/worktrees"

	"github.com/spf13/cobra"
)

// runFlags are the flags of run, as typed, and what this process has of their run.
type runFlags struct {
	launch.Order
	detach bool
	reply  *launch.Reply      // to the process that started this one as a shim; nil for none
	kept   *store.Use         // of an overlay workspace, once it is open
	dev    *dressing.Dressing // what of the devcontainer applies
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{Order: launch.Order{Verb: "run"}}
	acp := false
	c := &cobra.Command{
		Use:   "run [flags] [--] CMD [ARG...]",
		Short: "Run one command in a cloister of its own, gone afterwards",
		Example: "  cloister run -- sh -c 'id; ls -la'\n" +
			"  cloister run --allow api.example.com -- claude -p 'fix the tests'\n" +
			"  cloister run --acp --agent opencode -- opencode acp",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return cli.Usage("usage: "+cmd.UseLine(), "run: a command is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if acp {
				return a.runACP(cmd.Context(), f, args)
			}
			return a.run(cmd.Context(), f, args)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	f.register(a, c, "the agent that CMD is: it gets the environment that one needs; list, policy and audit name it")
	f.detachable(c)
	c.Flags().BoolVar(&acp, "acp", false, "CMD is an agent that an editor started: it speaks the Agent Client Protocol, and gets none of the editor's powers")
	return c
}

// register gives a command the flags of run and start, to which an agent is not
// the same.
func (f *runFlags) register(a *app, c *cobra.Command, agentUsage string) {
	fl := c.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&f.Agent, "agent", "", agentUsage)
	fl.StringVar(&f.Isolation, "isolation", "", "how the enclosure is built: native, user, docker, gvisor, kubernetes or auto")
	fl.StringVar(&f.Image, "image", "", "the system inside: an `IMAGE` by name, or ./ARCHIVE.tar, ./OCI-LAYOUT")
	fl.StringVar(&f.Name, "name", "", "name of the cloister (made from the project's when absent)")
	fl.StringVarP(&f.Project, "project", "C", "", "the project, instead of the current folder's")
	fl.StringVarP(&f.Branch, "branch", "b", "", "work in a worktree of this branch, made where there is none")
	fl.StringVar(&f.Mode, "mode", "", "enforce, shadow (record what would be denied) or record")
	fl.StringVar(&f.Workspace, "workspace", "",
		"live (the project's files), overlay (what is written is kept apart until it is applied), scratch (it is gone afterwards) or none")
	fl.StringArrayVar(&f.Allow, "allow", nil, "allow `DOMAIN[:PORT]` for this session")
	fl.StringArrayVar(&f.Deny, "deny", nil, "deny `DOMAIN[:PORT]` for this session")
	fl.StringArrayVar(&f.Expose, "expose", nil, "show `PATH[:ro|:rw]` of the host")
	fl.StringArrayVar(&f.Refs, "ref", nil, "show `DIR` read-only at /refs/NAME")
	fl.StringArrayVarP(&f.Env, "env", "e", nil, "set `NAME=VALUE` inside, or pass the host's NAME")
	fl.StringArrayVarP(&f.Publish, "publish", "p", nil,
		"make a port inside reachable at `[HOST:]PORT` of this machine's 127.0.0.1")
	fl.StringVar(&f.Memory, "memory", "", "memory limit, such as 8GiB")
	fl.Float64Var(&f.CPUs, "cpus", 0, "processors, such as 2 or 0.5")
	fl.Int64Var(&f.PIDs, "pids", 0, "processes and threads (4096 unless said)")
	fl.DurationVar(&f.Timeout, "timeout", 0, "end the command after this time, such as 30m")
	fl.BoolVar(&f.NoNetwork, "no-network", false, "no network at all, not even the guardian's")
	fl.StringArrayVar(&f.Accept, "accept", nil, "go on without a guarantee: `residue:NAME`")
	fl.StringArrayVar(&f.Policy, "policy", nil, "a Cedar `FILE` for this session")
	fl.StringVar(&f.Report, "report", "", "write a JSON summary of the run to `FILE`")
	fl.StringVar(&f.Devcontainer, "devcontainer", "",
		"the environment of this project's devcontainer, or of the one at `PATH`; none for the configuration's")
	fl.Lookup("devcontainer").NoOptDefVal = here
	for flag, words := range map[string][]string{
		"isolation": launch.Isolations(), "mode": launch.Modes(), "workspace": launch.Workspaces(), "accept": residueWords(),
	} {
		if err := c.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err)
		}
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"agent": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.agents(), cobra.ShellCompDirectiveNoFileComp
		},
		"branch": func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.branches(cmd.Context(), f.Project), cobra.ShellCompDirectiveNoFileComp
		},
		"project": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	} {
		if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err)
		}
	}
}

// detachable gives a command the flag by which it goes on in the background.
func (f *runFlags) detachable(c *cobra.Command) {
	c.Flags().BoolVarP(&f.detach, "detach", "d", false, "run in the background; output goes to cloister logs")
}

// residueWords are the words of --accept.
func residueWords() []string {
	var out []string
	for _, name := range launch.Residues() {
		out = append(out, "residue:"+name)
	}
	return out
}

// run is cloister run: this process becomes the cloister's shim.
func (a *app) run(ctx context.Context, f *runFlags, argv []string) error {
	if err := f.Check(); err != nil {
		return err
	}
	// Known before the command runs, not after.
	report, err := openReport(f.Report)
	if err != nil {
		return cli.Usage("", f.Verb+": --report: %v", err)
	}
	if f.detach {
		f.Args = argv
		answer, err := a.detach(ctx, f.Order)
		if err == nil {
			a.Line("%s", answer.Name)
		}
		return err
	}
	s, dirs, err := a.shim(ctx, f, argv)
	if err != nil {
		if f.reply != nil {
			f.reply.Send(failure(f.Verb, err))
		}
		if _, ok := errors.AsType[*cli.UsageError](err); ok {
			return err
		}
		return &cli.UnbuiltError{Err: err}
	}
	defer s.Client.Close()
	s.Signals = hear()
	return a.carryOut(ctx, f, s, dirs, argv, report, announce(f, s, dirs))
}

// carryOut runs a shim to its end, and tells what came of it. ready is given why no
// command ran; argv is the command as it was typed.
func (a *app) carryOut(
	ctx context.Context, f *runFlags, s *session.Shim, dirs xdg.Dirs, argv []string, report *report, ready func(error),
) error {
	beside, err := f.dev.Start(ctx, s, func() (sandbox.Driver, error) { return a.driverNamed(f.Isolation) })
	if err != nil {
		ready(err)
		return errors.Join(unbuilt(f.Verb, err), s.Begun.Close())
	}
	quiet := a.overlays().CheckpointQuiet(ctx, f.kept, overlays.QuietFor)
	res, err := s.Run(ctx)
	err = errors.Join(err, beside.Close())
	left := quiet()
	counting, counted := session.UntilSignal(context.WithoutCancel(ctx), s.Signals)
	kept, kerr := overlays.End(counting, f.kept, f.Agent, dirs.Data)
	counted()
	a.Log().Debug("the session is over", "name", res.Name, "ran", res.Ran, "status", res.Status.ExitCode(), "took",
		res.Duration, "error", err)
	if !res.Ran {
		err = withWay(f, err, res.Notices)
		err = errors.Join(err, report.write(res, exitStatus(unbuilt(f.Verb, err))))
		ready(err)
		return unbuilt(f.Verb, err)
	}
	err = errors.Join(err, kerr, report.write(res, res.Status.ExitCode()))
	a.Notices(append(kept, left...))
	again := func(hint string) string { return strings.Replace(hint, " -- CMD", " -- "+shellword.Line(argv...), 1) }
	a.Notices(ending.Lines(res, ending.Options{Again: again}))
	a.Complain(err)
	status := res.Status.ExitCode()
	if status == 0 && err != nil {
		status = cli.StatusFailed
	}
	if status != 0 {
		return &cli.StatusError{Status: status}
	}
	return nil
}

// withWay tells how a program that is not there could be, after what was left out of the PATH inside.
func withWay(f *runFlags, err error, noticed []string) error {
	execute, ok := errors.AsType[*sandbox.ExecError](err)
	if !ok || !execute.NotFound {
		return err
	}
	err = cli.Hinted(err, noticed...)
	if f.Image != "" {
		hints := []string{"inside are the programs of the image " + f.Image}
		if name := execute.Command; slices.Contains(agent.Names(), name) {
			hints = append(hints, "an image with "+name+": cloister image build, or of this machine's programs: cloister image build --from-host --agent "+name)
		}
		return cli.Hinted(err, hints...)
	}
	if by := interpreter(execute.Command); by != "" {
		err = cli.Hinted(err, execute.Command+" is a script for "+by+", which has to be inside, too")
	}
	return cli.Hinted(err, "inside are /usr, /opt, and the toolchains that PATH finds; --expose PATH shows more of the host")
}

// interpreter is the program that a script of this host names in its first line; "" where
// the command is no script.
func interpreter(command string) string {
	path, err := exec.LookPath(command)
	if err != nil {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := shebang.Read(f) // a hint is left out
	return line.Interpreter
}

// unbuilt makes the error of a run that did not come about: of the command where
// it was the command's, of the words where the guardian could not read them.
func unbuilt(verb string, err error) error {
	var (
		execute *sandbox.ExecError
		words   *api.Error
	)
	if errors.As(err, &execute) {
		return err
	}
	if errors.As(err, &words) && words.Code == api.CodeBadRequest {
		return cli.Hinted(cli.Usage("", verb+": %s", words.Message), words.Hints...)
	}
	return &cli.UnbuiltError{Err: err}
}

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
	if err := a.asDevcontainer(ctx, f, cfg.Defaults, dirs); err != nil {
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
	home := a.realHome()
	host, err := a.Resolver(dirs)
	if err != nil {
		return nil, dirs, err
	}
	project, err := a.project(ctx, f, dirs, home, host)
	if err != nil {
		return nil, dirs, err
	}
	words, err := a.ofProject(dirs, host.Places(), project, cfg)
	if err != nil {
		return nil, dirs, err
	}
	if own := words.Config.Defaults; own.Devcontainer != cfg.Defaults.Devcontainer && f.Devcontainer == "" {
		typed = bare // the project has a word about it
		if err := a.asDevcontainer(ctx, &typed, own, dirs); err != nil {
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
		a.tellNarrowed()
	}
	a.sayOuter(words.Outer)
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
	driver, root := g.driver, g.root
	facts := a.facts(ctx, dirs, host, words, sources, root)
	facts.Project, facts.Isolation = string(project.Root), driver.Name()
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
		if f.kept, err = overlays.Begin(dirs, string(project.Root), f.Name, f.Agent); err != nil {
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
	s := &session.Shim{
		Reviews: reviews(dirs),
		Client:  c, Begun: g.begun, Project: project, View: view, Argv: argv, Env: plan.Env,
		Term:   a.locale(),
		Caller: a.hostCaller(cfg, f),
		User:   plan.User, Judge: plan.Judge, Judged: plan.Judged, Permits: plan.Permits, Watched: plan.Watched,
		Limits: f.dev.Limit(plan.Limits), Root: root, Path: g.path,
		CAFile: sandbox.HostPath(plan.CAFile), CA: plan.CA, Java: javaStore(), Sums: filepath.Join(dirs.Runtime, "java.sum"),
		Author: workspace.FindAuthor(home, project.Git), Submodules: workspace.Unregistered(project.Root, project.Git),
		Denied: []string{guardian.Socket(dirs), guardian.AuditDir(dirs), "/run/docker.sock", "/run/dbus"},
		Stdin:  a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Timeout: f.Timeout,
		Request: plan.Request(f.Order, argv),
	}
	s.Request.Project, s.Request.Path, s.Request.Branch = string(project.Main), string(project.Root), project.Git.Branch()
	s.Request.Isolation, s.Request.Image = driver.Name(), root.ID
	s.Request.Projects, s.Request.ShimPID = words.Files, os.Getpid()
	s.Shims, s.Remotes = shims(cfg)
	f.dev.Dress(s)
	if _, ok := driver.(keeper); ok || driver.Name() == "kubernetes" {
		s.StartWithin = 2 * time.Minute // an engine bounds each of its answers itself, and a cluster fetches images
	}
	if !a.Quiet {
		s.Notify = func(text string) { a.Notice("cloister: %s", text) }
		s.Held = heldPaths(f, string(project.Root), argv)
	}
	return s, dirs, nil
}

// heldPaths says by what words errors at protected paths are allowed.
func heldPaths(f *runFlags, root string, argv []string) heldpath.Options {
	here, _ := os.Getwd() // without it the path is a whole one
	return heldpath.Options{Root: root, Dir: here, Allow: func(flag string) string {
		if f.Verb == "start" {
			return "cloister start " + flag
		}
		command := shellword.Line(argv...)
		if len(command) > 60 || strings.ContainsRune(command, '\n') {
			command = "CMD"
		}
		return "cloister run " + flag + " -- " + command
	}}
}

// facts are what an order meets here.
func (a *app) facts(
	ctx context.Context, dirs xdg.Dirs, host *resolve.Resolver, words projects.Settings, sources config.Sources, root sandbox.Root,
) launch.Facts {
	return launch.Facts{
		Config: words.Config, Cedar: cedarFiles(sources), Outer: words.Outer, Root: root,
		Host: host, Dirs: dirs, Locks: locksDir(dirs), KeepOut: keepOut(dirs),
		Home: a.Home(), RealHome: a.realHome(), UID: a.UID, Env: a.Env,
		Git: func(at hostgit.Folders) hostgit.Configuration {
			return hostgit.Sources(ctx, host, dirs.Data, at, hostgit.ConfigVariables(a.Env))
		},
	}
}

// ground is what of a cloister does not depend on its project.
type ground struct {
	driver sandbox.Driver
	root   sandbox.Root
	path   []string
	begun  sandbox.Begun
}

func (a *app) begin(ctx context.Context, f *runFlags, dirs xdg.Dirs, user sandbox.User) (ground, error) {
	driver, err := a.driverNamed(f.Isolation)
	if err != nil {
		return ground{}, err
	}
	root, path, err := a.system(ctx, f, dirs, driver)
	if err != nil {
		return ground{}, err
	}
	begun := sandbox.Begin(driver, sandbox.Ground{
		User: user.ID, Root: root, Network: !f.NoNetwork, Peers: f.dev.Peers(), Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr,
	})
	return ground{driver, root, path, begun}, nil
}

// realHome is the person's home without symbolic links; empty where there is
// none that could hold anything.
func (a *app) realHome() string {
	home := a.Home()
	if !filepath.IsAbs(home) {
		return ""
	}
	if real, err := realpath.Of(home); err == nil {
		return real
	}
	return home
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
	if f.Branch != "" {
		if p, err = a.worktree(ctx, f, p, dirs, host); err != nil {
			return p, err
		}
	}
	accepted := f.Accepted()
	err = p.Check(workspace.Places{
		Home: home, State: stateAround(dirs, string(p.Root)),
		Socket: []string{"/run/docker.sock", "/var/run/docker.sock"},
	}, func(residue string) bool { return slices.Contains(accepted, residue) })
	if err != nil || f.Workspace == "none" {
		return p, err
	}
	return p, a.same(f, host, p)
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

// stateAround are Cloister's own folders, of which a project may hold none. A
// managed worktree lies in one of them, and beside the others.
func stateAround(d xdg.Dirs, root string) []string {
	out := keepOut(d)
	trees := worktrees.Dir(d.Data)
	if real, err := filepath.EvalSymlinks(trees); err == nil {
		trees = real
	}
	if !strings.HasPrefix(root, trees+"/") {
		return out
	}
	data := filepath.Dir(trees)
	return append(slices.DeleteFunc(out, func(dir string) bool { return dir == data }), filepath.Join(data, "homes"))
}

// keepOut are Cloister's own folders, which no cloister sees.
func keepOut(d xdg.Dirs) []string {
	var out []string
	for _, dir := range []string{d.Config, d.State, d.Data, d.Runtime} {
		if real, err := realpath.Of(dir); err == nil {
			dir = real
		}
		out = append(out, dir)
	}
	return out
}

// payload is who the command is inside.
func (a *app) payload() sandbox.User { return launch.UserOf(a.UID, a.Env.Get("USER")) }

// javaStore is where this host's Java looks for authorities, where Debian and its
// kin keep them for it; "" where there is none.
func javaStore() string {
	const file = "/etc/ssl/certs/java/cacerts"
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// passed are the signals that a wrapped command gets instead of this process.
var passed = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// hear begins to hear the signals that are passed on, until the process ends. It
// works beside its caller, since the runtime hands each from thread to thread,
// 1 ms for all: until then a signal does what it does to any process.
func hear() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	go signal.Notify(c, passed...)
	return c
}
