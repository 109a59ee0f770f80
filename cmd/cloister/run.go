package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cloister/agent"
	"cloister/api"
	"cloister/config"
	"cloister/devcontainer"
	"cloister/guardian"
	"cloister/host/resolve"
	"cloister/internal/nearest"
	"cloister/internal/realpath"
	"cloister/internal/shellword"
	"cloister/internal/xdg"
	"cloister/policyset"
	"cloister/sandbox"
	"cloister/sandbox/image"
	"cloister/session"
	"cloister/state/store"
	"cloister/workspace"
	"cloister/workspace/hostgit"
	"cloister/workspace/protect"
	"cloister/workspace/worktrees"

	"github.com/spf13/cobra"
)

// runFlags are the flags of run, as typed.
type runFlags struct {
	kept                                                                            *store.Use // of an overlay workspace, once it is open
	isolation, mode, workspace, name, project, branch, report, memory, image, agent string
	allow, deny, expose, refs, env, accept, policy, publish                         []string
	cpus                                                                            float64
	pids                                                                            int64
	timeout                                                                         time.Duration
	noNetwork, detach                                                               bool
	ready                                                                           int // hidden: where a detached run says that it runs

	verb string // run or start, for what is told

	devcontainer string                  // of --devcontainer
	dev          *devcontainer.Effective // what of it applies

	// What srt says besides, in no flag of run.
	cedar         []api.CedarFile
	hide, protect []string
	readOnly      bool
}

// isolations are the words of --isolation.
var isolations = []string{"native", "docker", "auto"}

// residues are the words of --accept. Those of statements of policy files begin
// with residuePolicy.
var residues = []string{"wide-workspace", "cgroup-limits", residueIdentity, protect.ResidueUnprotected}

const residuePolicy = "policy:"

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{verb: "run"}
	c := &cobra.Command{
		Use:   "run [flags] [--] CMD [ARG...]",
		Short: "Run one command in a cloister of its own, gone afterwards",
		Example: "  cloister run -- sh -c 'id; ls -la'\n" +
			"  cloister run --allow api.example.com -- claude -p 'fix the tests'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return wrongWords("usage: "+cmd.UseLine(), "run: a command is missing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), f, args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	f.register(a, c, "the agent that CMD is: it gets the environment that one needs; list, policy and audit name it")
	return c
}

// register gives a command the flags of run and start, to which an agent is not
// the same.
func (f *runFlags) register(a *app, c *cobra.Command, agentUsage string) {
	fl := c.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&f.agent, "agent", "", agentUsage)
	fl.StringVar(&f.isolation, "isolation", "", "how the enclosure is built: native, docker or auto")
	fl.StringVar(&f.image, "image", "", "the system inside: an `IMAGE` by name, or ./ARCHIVE.tar, ./OCI-LAYOUT")
	fl.StringVar(&f.name, "name", "", "name of the cloister (made from the project's when absent)")
	fl.StringVarP(&f.project, "project", "C", "", "the project, instead of the current folder's")
	fl.StringVarP(&f.branch, "branch", "b", "", "work in a worktree of this branch, made where there is none")
	fl.StringVar(&f.mode, "mode", "", "enforce, shadow (record what would be denied) or record")
	fl.StringVar(&f.workspace, "workspace", "", "live (the project's files), overlay (what is written is kept apart until it is applied), scratch (it is gone afterwards) or none")
	fl.StringArrayVar(&f.allow, "allow", nil, "allow `DOMAIN[:PORT]` for this session")
	fl.StringArrayVar(&f.deny, "deny", nil, "deny `DOMAIN[:PORT]` for this session")
	fl.StringArrayVar(&f.expose, "expose", nil, "show `PATH[:ro|:rw]` of the host")
	fl.StringArrayVar(&f.refs, "ref", nil, "show `DIR` read-only at /refs/NAME")
	fl.StringArrayVarP(&f.env, "env", "e", nil, "set `NAME=VALUE` inside, or pass the host's NAME")
	fl.StringArrayVarP(&f.publish, "publish", "p", nil, "make a port inside reachable at `[HOST:]PORT` of this machine's 127.0.0.1")
	fl.StringVar(&f.memory, "memory", "", "memory limit, such as 8GiB")
	fl.Float64Var(&f.cpus, "cpus", 0, "processors, such as 2 or 0.5")
	fl.Int64Var(&f.pids, "pids", 0, "processes and threads (4096 unless said)")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the command after this time, such as 30m")
	fl.BoolVarP(&f.detach, "detach", "d", false, "run in the background; output goes to cloister logs")
	fl.BoolVar(&f.noNetwork, "no-network", false, "no network at all, not even the guardian's")
	fl.StringArrayVar(&f.accept, "accept", nil, "go on without a guarantee: `residue:NAME`")
	fl.StringArrayVar(&f.policy, "policy", nil, "a Cedar `FILE` for this session")
	fl.StringVar(&f.report, "report", "", "write a JSON summary of the run to `FILE`")
	fl.StringVar(&f.devcontainer, "devcontainer", "", "the environment of this project's devcontainer, or of the one at `PATH`")
	fl.Lookup("devcontainer").NoOptDefVal = here
	fl.IntVar(&f.ready, "ready-fd", 0, "")
	if err := fl.MarkHidden("ready-fd"); err != nil {
		panic(err) // the flag is one line above
	}
	for flag, words := range map[string][]string{
		"isolation": isolations, "mode": {"enforce", "shadow", "record"}, "workspace": {"live", "overlay", "scratch", "none"},
		"accept": {"residue:wide-workspace", "residue:cgroup-limits", "residue:" + residueIdentity, "residue:" + protect.ResidueUnprotected},
	} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err)
		}
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"agent": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.agents(), cobra.ShellCompDirectiveNoFileComp
		},
		"branch": func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.branches(cmd.Context(), f.project), cobra.ShellCompDirectiveNoFileComp
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

// check refuses words that are none of a flag's.
func (f *runFlags) check() error {
	for _, w := range []struct {
		flag, value string
		words       []string
	}{
		{"--isolation", f.isolation, isolations},
		{"--mode", f.mode, []string{"enforce", "shadow", "record"}},
		{"--workspace", f.workspace, []string{"live", "overlay", "scratch", "none"}},
	} {
		if w.value != "" && !slices.Contains(w.words, w.value) {
			return wrongWords("one of: "+strings.Join(w.words, ", "), f.verb+": %s %q is not known", w.flag, w.value)
		}
	}
	for _, word := range f.accept {
		name, ok := strings.CutPrefix(word, "residue:")
		if ok && strings.HasPrefix(name, residuePolicy) {
			continue // the policy files say which there are
		}
		if !ok || !slices.Contains(residues, name) {
			hint := "one of: residue:" + strings.Join(residues, ", residue:")
			if near := nearest.Word(strings.TrimPrefix(word, "residue:"), residues); near != "" {
				hint = "did you mean --accept residue:" + near + "?"
			}
			return wrongWords(hint, f.verb+": --accept %q names no residue", word)
		}
	}
	if strings.ContainsAny(f.agent, "/ \t\n") || strings.HasPrefix(f.agent, "-") {
		return wrongWords("such as --agent claude; any command at all: cloister run -- CMD", f.verb+": --agent %q is not the name of a program", f.agent)
	}
	if f.cpus < 0 || f.pids < 0 || f.timeout < 0 {
		return wrongWords("", "%s: a limit cannot be negative", f.verb)
	}
	if len(f.allow)+len(f.deny) > 0 {
		if err := policyset.CheckFlags(f.allow, f.deny); err != nil {
			return wrongWords("write DOMAIN or DOMAIN:PORT, such as api.example.com or *.example.com:8443", f.verb+": %v", err)
		}
	}
	if f.image != "" {
		if err := image.Check(f.image); err != nil {
			return hinted(wrongWords("", f.verb+": --image: %v", err), hintsOf(err)...)
		}
	}
	if _, err := f.published(); err != nil {
		return wrongWords("write PORT or HOSTPORT:PORT, such as 8080 or 8080:80", f.verb+": --publish %v", err)
	}
	if f.noNetwork && len(f.publish) > 0 {
		return wrongWords("", "%s: --no-network and --publish exclude each other", f.verb)
	}
	if f.name != "" {
		if err := session.CheckName(f.name); err != nil {
			return wrongWords("", f.verb+": %v", err)
		}
	}
	return nil
}

// published reads what --publish names.
func (f *runFlags) published() ([]api.Published, error) {
	var out []api.Published
	for _, text := range f.publish {
		p, err := session.ParsePublished(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o api.Published) bool { return o.HostPort == p.HostPort }) {
			return nil, fmt.Errorf("%q: port %d of this machine is named twice", text, p.HostPort)
		}
		out = append(out, p)
	}
	return out, nil
}

func (f *runFlags) accepted() []string {
	var out []string
	for _, word := range f.accept {
		out = append(out, strings.TrimPrefix(word, "residue:"))
	}
	return out
}

// run is cloister run: this process becomes the cloister's shim.
func (a *app) run(ctx context.Context, f *runFlags, argv []string) error {
	if err := f.check(); err != nil {
		return err
	}
	// Known before the command runs, not after.
	report, err := openReport(f.report)
	if err != nil {
		return wrongWords("", f.verb+": --report: %v", err)
	}
	// A run that has somebody to tell is the detached one: it was started with
	// the same flags, and must not detach in its turn, for ever.
	if f.detach && f.ready == 0 {
		word, err := a.detach(ctx, f.verb)
		if err == nil {
			a.line("%s", word.Name)
		}
		return err
	}
	s, dirs, err := a.shim(ctx, f, argv)
	if err != nil {
		if _, ok := errors.AsType[*wordsError](err); ok {
			return err
		}
		return &unbuiltError{err}
	}
	defer s.Client.Close()
	s.Signals = hear()
	ready := a.announce(f, s, dirs)

	quiet := a.checkpointQuiet(ctx, f.kept, quietFor)
	res, err := s.Run(ctx)
	left := quiet()
	kept, kerr := afterKept(context.WithoutCancel(ctx), f, dirs.Data)
	a.log().Debug("the session is over", "name", res.Name, "ran", res.Ran, "status", res.Status.ExitCode(), "took", res.Duration, "error", err)
	if !res.Ran {
		err = withWay(f, err)
		err = errors.Join(err, report.write(res, exitStatus(unbuilt(f.verb, err))))
		ready(err)
		return unbuilt(f.verb, err)
	}
	err = errors.Join(err, kerr, report.write(res, res.Status.ExitCode()))
	a.notices(append(kept, left...))
	for _, text := range afterwards(res, func(hint string) string { return strings.Replace(hint, " -- CMD", " -- "+shellword.Line(argv...), 1) }) {
		a.notice("%s", text)
	}
	a.complain(err)
	status := res.Status.ExitCode()
	if status == 0 && err != nil {
		status = statusFailed
	}
	if status != 0 {
		return &statusError{status}
	}
	return nil
}

// withWay tells how a program that is not there could be.
func withWay(f *runFlags, err error) error {
	execute, ok := errors.AsType[*sandbox.ExecError](err)
	if !ok || !execute.NotFound {
		return err
	}
	if f.image != "" {
		hints := []string{"inside are the programs of the image " + f.image}
		if name := execute.Command; slices.Contains(agent.Names(), name) {
			hints = append(hints, "an image with "+name+": cloister image build, or of this machine's programs: cloister image build --from-host --agent "+name)
		}
		return hinted(err, hints...)
	}
	return hinted(err, "inside are /usr, /opt, and the toolchains that PATH finds; --expose PATH shows more of the host")
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
		return hinted(wrongWords("", verb+": %s", words.Message), words.Hints...)
	}
	return &unbuiltError{err}
}

// shim gathers everything that a run depends on, from flags, configuration and
// environment, and reaches the guardian.
func (a *app) shim(ctx context.Context, f *runFlags, argv []string) (_ *session.Shim, dirs xdg.Dirs, err error) {
	dirs, err = a.dirs()
	if err != nil {
		return nil, dirs, err
	}
	cfg, sources, err := config.Load(dirs.Config)
	if err != nil {
		return nil, dirs, err
	}
	if err := a.asDevcontainer(ctx, f, dirs); err != nil {
		return nil, dirs, err
	}
	typed := *f
	f.fill(cfg)
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
	host, err := a.host(dirs)
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
	if err := f.narrowed(&words, project); err != nil {
		return nil, dirs, err
	}
	cfg = words.cfg
	if words.waits {
		a.tellNarrowed()
	}
	a.sayOuter(words.outer)
	image := f.image // as the driver knows it
	*f = typed
	if f.fill(cfg); f.isolation == asked.isolation && f.image == asked.image {
		f.image = image
	} else {
		// The project has a word about it: the ground is another.
		if err := g.begun.Close(); err != nil {
			return nil, dirs, err
		}
		if g, err = a.begin(ctx, f, dirs, user); err != nil {
			return nil, dirs, err
		}
	}
	driver, root, path := g.driver, g.root, g.path
	if f.agent != "" {
		f.env = append(agentEnv(f.agent, cfg), f.env...) // what is typed is the last word
	}
	if f.dev != nil {
		f.env = append(slices.Clone(f.dev.Env), f.env...)
	}
	limits, err := a.limits(f, cfg)
	if err != nil {
		return nil, dirs, err
	}
	limits = f.narrowLimits(limits)
	view, err := a.view(ctx, f, cfg, dirs, home, host)
	if err != nil {
		return nil, dirs, err
	}
	view.Outer = words.outer
	f.placed(&view)
	view.Hide, view.Protect = append(view.Hide, f.hide...), append(view.Protect, f.protect...)
	view.ReadOnly = f.readOnly
	if f.workspace == string(config.WorkspaceOverlay) {
		f.name = cmp.Or(f.name, keptName(f, string(project.Root)))
		if f.kept, err = a.keep(f, dirs.Data, string(project.Root)); err != nil {
			return nil, dirs, err
		}
		view.Uppers = uppersOf(f.kept.Mount)
	}
	env, err := a.inside(f)
	if err != nil {
		return nil, dirs, err
	}
	ports, err := f.published()
	if err != nil {
		return nil, dirs, err
	}
	cedar, err := cedarTexts(f.policy, f.verb+": --policy")
	if err != nil {
		return nil, dirs, err
	}
	cedar = append(cedar, f.cedar...)
	closed, err := f.close(&view, sources, cedar, root)
	if err != nil {
		return nil, dirs, err
	}
	caFile, ca, err := a.authorities(cfg)
	if err != nil {
		return nil, dirs, err
	}
	c, err := a.ensure(ctx)
	if err != nil {
		return nil, dirs, err
	}
	a.log().Debug("ask for a session", "project", project.Root, "isolation", driver.Name(), "mode", f.mode, "workspace", f.workspace, "config", sources.File, "found", sources.Found, "command", argv)
	s := &session.Shim{
		Reviews: reviews(dirs),
		Client:  c, Begun: g.begun, Project: project, View: view, Argv: argv, Env: env,
		Term:   a.locale(),
		Caller: a.hostCaller(cfg, f),
		User:   user, Limits: limits, Root: root, Path: path, CAFile: sandbox.HostPath(caFile), CA: ca, Java: javaStore(), Sums: filepath.Join(dirs.Runtime, "java.sum"), Author: workspace.FindAuthor(home, project.Git), Submodules: workspace.Unregistered(project.Root, project.Git),
		Denied: []string{guardian.Socket(dirs), guardian.AuditDir(dirs), "/run/docker.sock", "/run/dbus"},
		Stdin:  a.stdin, Stdout: a.stdout, Stderr: a.stderr, Timeout: f.timeout,
		Request: api.SessionRequest{
			Name: f.name, Project: string(project.Main), Path: string(project.Root), Branch: project.Git.Branch(), Agent: f.agent, Isolation: driver.Name(), Mode: f.mode, Workspace: f.workspace,
			Command: argv, Image: root.ID, Allow: f.allow, Deny: f.deny, Network: !f.noNetwork, Cedar: cedar, Projects: words.files, Accepted: f.accepted(), ShimPID: os.Getpid(),
			Writable: writable(view), Closed: closed, Publish: ports,
		},
	}
	s.Shims, s.Remotes = shims(cfg)
	f.dressed(s)
	if _, ok := driver.(keeper); ok {
		s.StartWithin = 2 * time.Minute // an engine bounds each of its answers itself
	}
	if !a.quiet {
		s.Notify = func(text string) { a.notice("cloister: %s", text) }
	}
	return s, dirs, nil
}

// fill gives the flags that were not typed the words of the configuration.
func (f *runFlags) fill(cfg *config.Config) {
	f.isolation = cmp.Or(f.isolation, string(cfg.Defaults.Isolation))
	f.mode = cmp.Or(f.mode, string(cfg.Defaults.Mode))
	f.workspace = cmp.Or(f.workspace, string(cfg.Defaults.Workspace))
	f.image = cmp.Or(f.image, cfg.Image)
}

// ground is what of a cloister does not depend on its project.
type ground struct {
	driver sandbox.Driver
	root   sandbox.Root
	path   []string
	begun  sandbox.Begun
}

func (a *app) begin(ctx context.Context, f *runFlags, dirs xdg.Dirs, user sandbox.User) (ground, error) {
	driver, err := a.driverNamed(f.isolation)
	if err != nil {
		return ground{}, err
	}
	root, path, err := a.system(ctx, f, dirs, driver)
	if err != nil {
		return ground{}, err
	}
	begun := sandbox.Begin(driver, sandbox.Ground{User: user.ID, Root: root, Network: !f.noNetwork, Stdin: a.stdin, Stdout: a.stdout, Stderr: a.stderr})
	return ground{driver, root, path, begun}, nil
}

// agentEnv are the variables of an agent, its own and those that a person
// configured, as -e would give them.
func agentEnv(name string, cfg *config.Config) []string {
	own := agent.Find(name).With(nil, cfg.Agents[name].Env).Env
	env := make([]string, 0, len(own))
	for _, key := range slices.Sorted(maps.Keys(own)) {
		env = append(env, key+"="+own[key])
	}
	return env
}

// writable are the host folders besides the project that a person shows so.
func writable(view workspace.Options) []string {
	var out []string
	for _, e := range view.Expose {
		if e.Access == sandbox.ReadWrite {
			out = append(out, e.Path)
		}
	}
	return out
}

// realHome is the person's home without symbolic links; empty where there is
// none that could hold anything.
func (a *app) realHome() string {
	home := a.home()
	if !filepath.IsAbs(home) {
		return ""
	}
	if real, err := realpath.Of(home); err == nil {
		return real
	}
	return home
}

func (a *app) project(ctx context.Context, f *runFlags, dirs xdg.Dirs, home string, host *resolve.Resolver) (workspace.Project, error) {
	dir := f.project
	if dir == "" {
		dir = "."
	}
	p, err := a.projectAt(dir, host)
	if err != nil {
		if fi, statErr := os.Stat(dir); f.project != "" && (statErr != nil || !fi.IsDir()) {
			return p, wrongWords("-C names the project's folder", f.verb+": %v", err)
		}
		return p, err
	}
	if f.branch != "" {
		if p, err = a.worktree(ctx, f, p, dirs, host); err != nil {
			return p, err
		}
	}
	accepted := f.accepted()
	err = p.Check(workspace.Places{
		Home: home, State: stateAround(dirs, string(p.Root)),
		Socket: []string{"/run/docker.sock", "/var/run/docker.sock"},
	}, func(residue string) bool { return slices.Contains(accepted, residue) })
	if err != nil || f.workspace == "none" {
		return p, err
	}
	return p, a.same(f, host, p)
}

// worktree is the project's working tree of the branch that was typed.
func (a *app) worktree(ctx context.Context, f *runFlags, p workspace.Project, dirs xdg.Dirs, host *resolve.Resolver) (workspace.Project, error) {
	trees, err := worktrees.Of(p, host, dirs.Data, locksDir(dirs))
	if errors.Is(err, worktrees.ErrNoRepository) {
		return p, hinted(fmt.Errorf("%s: -b %s: %w", f.verb, f.branch, err), "make one: git init, then a first commit")
	}
	if err != nil {
		return p, err
	}
	path, made, err := trees.Open(ctx, f.branch)
	if errors.Is(err, worktrees.ErrBranchName) {
		return p, wrongWords("git help check-ref-format says what one may be", "%s: -b: %q is not a branch's name", f.verb, f.branch)
	}
	if err != nil {
		return p, err
	}
	if made {
		a.notice("cloister: made the worktree %s", path)
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

func (a *app) limits(f *runFlags, cfg *config.Config) (sandbox.Limits, error) {
	l := sandbox.Limits{Memory: int64(cfg.Resources.Memory), CPUs: cfg.Resources.CPUs, Pids: cfg.Resources.PIDs}
	if f.memory != "" {
		size, err := config.ParseSize(f.memory)
		if err != nil {
			return l, wrongWords("such as 512MiB or 8GiB", f.verb+": --memory: %v", err)
		}
		l.Memory = int64(size)
	}
	if f.cpus > 0 {
		l.CPUs = f.cpus
	}
	if f.pids > 0 {
		l.Pids = f.pids
	}
	return l, nil
}

func (a *app) view(ctx context.Context, f *runFlags, cfg *config.Config, dirs xdg.Dirs, home string, host *resolve.Resolver) (workspace.Options, error) {
	o := workspace.Options{
		Host: host,
		Home: home, Path: a.env.get("PATH"), Data: dirs.Data, Locks: locksDir(dirs),
		None: f.workspace == "none", Overlay: f.workspace == "overlay" || f.workspace == "scratch", Protect: cfg.Filesystem.Protect, Hide: cfg.Filesystem.Hide, KeepOut: keepOut(dirs),
		Unprotected: slices.Contains(f.accepted(), protect.ResidueUnprotected),
		Sources: func(at hostgit.Folders) hostgit.Configuration {
			return hostgit.Sources(ctx, host, dirs.Data, at, hostgit.ConfigVariables(a.env))
		},
	}
	if f.image != "" {
		o.Path = "" // toolchains are the image's
	}
	for i, text := range append(slices.Clone(cfg.Filesystem.Expose), f.expose...) {
		e, err := config.ParseExpose(text)
		if err != nil {
			return o, wrongWords("", f.verb+": %v", err)
		}
		path, err := a.tilde(e.Path)
		if err != nil {
			return o, err
		}
		access := sandbox.ReadOnly
		if e.Writable {
			access = sandbox.ReadWrite
		}
		if path, err = filepath.Abs(path); err != nil {
			return o, fmt.Errorf("expose %s: %w", e.Path, err)
		}
		if _, err := os.Stat(path); err != nil && i >= len(cfg.Filesystem.Expose) {
			return o, wrongWords("", f.verb+": --expose: %v", err)
		} else if a.absent(err, "expose", text) {
			continue
		}
		o.Expose = append(o.Expose, workspace.Expose{Path: path, Access: access, Typed: i >= len(cfg.Filesystem.Expose)})
	}
	for i, ref := range append(slices.Clone(cfg.Filesystem.Refs), f.refs...) {
		path, err := a.tilde(ref)
		if err != nil {
			return o, err
		}
		if _, err := os.Stat(path); err != nil && i >= len(cfg.Filesystem.Refs) {
			return o, wrongWords("", f.verb+": --ref: %v", err)
		} else if a.absent(err, "refs", ref) {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return o, fmt.Errorf("show %s at /refs: %w", ref, err)
		}
		o.Refs = append(o.Refs, path)
	}
	return o, nil
}

// absent tells of a path in a file of settings, which are for several machines
// and projects: what is not there is not shown.
func (a *app) absent(err error, key, path string) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	a.notice("cloister: filesystem.%s: %s is not there", key, path)
	return true
}

// inside is what -e names: a value, or the host's variable.
func (a *app) inside(f *runFlags) ([]string, error) {
	var out []string
	for _, e := range f.env {
		name, _, set := strings.Cut(e, "=")
		if name == "" || strings.ContainsRune(e, 0) {
			return nil, wrongWords("-e NAME=VALUE, or -e NAME for the host's", f.verb+": -e %q has no name", e)
		}
		if set {
			out = append(out, e)
			continue
		}
		if value, ok := a.env[name]; ok {
			out = append(out, name+"="+value)
		}
	}
	return out, nil
}

func cedarTexts(names []string, said string) ([]api.CedarFile, error) {
	var out []api.CedarFile
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, wrongWords("", "%s: %v", said, err)
		}
		out = append(out, api.CedarFile{Name: name, Text: string(text)})
	}
	return out, nil
}

// payload is who the command is inside: this user by the same number, never root.
func (a *app) payload() sandbox.User {
	if a.uid == 0 {
		return sandbox.User{ID: 1000, Name: "agent"}
	}
	name := a.env.get("USER")
	ok := name != "" && name != "root" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if !ok {
		name = "agent"
	}
	return sandbox.User{ID: a.uid, Name: name}
}

// bundles is where distributions keep the authorities that they trust.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}

// authorities are the certificate authorities that programs inside trust: a file
// of the host's, where the payload's user may read it, and the text of others.
func (a *app) authorities(cfg *config.Config) (file string, more []byte, err error) {
	list := bundles
	if named := a.env.get("SSL_CERT_FILE"); named != "" {
		list = []string{named}
	}
	for _, candidate := range list {
		fi, err := os.Stat(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// What root alone can reach, the payload's user cannot.
		if err == nil && filepath.IsAbs(candidate) && (a.uid != 0 || slices.Contains(bundles, candidate) && fi.Mode().Perm()&0o004 != 0) {
			file = candidate
			break
		}
		if err == nil {
			more, err = os.ReadFile(candidate)
		}
		if err != nil {
			return "", nil, fmt.Errorf("read certificate authorities: %w", err)
		}
		break
	}
	for i, name := range cfg.Proxy.UpstreamCA {
		path, err := a.tilde(name)
		if err != nil {
			return "", nil, err
		}
		text, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(text, []byte("-----BEGIN CERTIFICATE-----")) {
			err = fmt.Errorf("%s holds no certificate in PEM form", path)
		}
		if err != nil {
			at := cfg.Place(fmt.Sprintf("proxy.upstream_ca[%d]", i))
			return "", nil, &config.Error{File: at.File, Line: at.Line, Column: at.Column, Msg: "proxy.upstream_ca: " + err.Error()}
		}
		more = append(append(more, '\n'), text...)
	}
	return file, append(more, '\n'), nil
}

// javaStore is where this host's Java looks for authorities, where Debian and its
// kin keep them for it; "" where there is none.
func javaStore() string {
	const file = "/etc/ssl/certs/java/cacerts"
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// afterwards is what a person should know after a run: nothing, where nothing was
// refused or changed.
func afterwards(res session.Result, again func(hint string) string) []string {
	var out []string
	tell := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, n := range res.Notices {
		tell("cloister: %s", n)
	}
	switch {
	case res.TimedOut:
		tell("cloister: %s was ended: its time was over", res.Name)
	case res.Stopped != "":
		tell("cloister: %s was ended: %s", res.Name, res.Stopped)
	}
	for _, r := range res.Summary.Refusals {
		dest := r.Host
		if dest == "" {
			dest = "a request"
		}
		if r.Port != 0 {
			dest = net.JoinHostPort(dest, strconv.Itoa(r.Port))
		}
		times := ""
		if r.Count > 1 {
			times = fmt.Sprintf(" (%d times)", r.Count)
		}
		tell("cloister: refused %s%s: %s", dest, times, r.Reason)
		for _, h := range r.Hints {
			tell("hint: %s", again(h))
		}
	}
	if res.Summary.More > 0 {
		tell("cloister: and %d more destinations: cloister audit tail --session %s --verdict deny", res.Summary.More, res.Name)
	}
	if len(res.Autorun) > 0 {
		tell("cloister: files changed that programs of this host may run; look before you do:")
		shown, more := workspace.Grouped(res.Autorun)
		for _, path := range shown {
			tell("  %s", path)
		}
		for _, m := range more {
			tell("  and %d more in %s", m.Count, m.Folder)
		}
		tell("hint: cloister review shows each, and keeps, reverts or trusts it")
	}
	if res.Truncated {
		tell("cloister: not all files of the project were looked at: it is too large, or something in it cannot be read")
	}
	return out
}

// passed are the signals that a wrapped command gets instead of this process.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// hear begins to hear the signals that are passed on, until the process ends. It
// works beside its caller, since the runtime hands each from thread to thread,
// 1 ms for all: until then a signal does what it does to any process.
func hear() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	go signal.Notify(c, passed...)
	return c
}
