package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"cloister/agent"
	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/overlays"
	"cloister/config"
	"cloister/internal/nearest"
	"cloister/internal/vscreen"
	"cloister/internal/xdg"
	"cloister/session"
	"cloister/session/ending"
	"cloister/session/launch"
	"cloister/session/report"
	"cloister/session/terminal"
	"cloister/workspace"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// startFlags are the flags of start, as typed.
type startFlags struct {
	runFlags
	typed []string // flags that make a new cloister what it is
}

func (a *app) startCommand() *cobra.Command {
	f := &startFlags{runFlags: runFlags{Order: launch.Order{Verb: "start"}}}
	c := &cobra.Command{
		Use:   "start [flags] [-- ARG...]",
		Short: "Start or rejoin this project's cloister, and attach",
		Long: `Start this project's cloister with its agent, or rejoin the one that runs, and
attach this terminal to it. Ctrl-P Ctrl-Q detaches: the agent goes on. What
follows -- goes to the agent.`,
		Example: "  cloister start\n" +
			"  cloister start --agent codex -- --model o4\n" +
			"  cloister claude                  # the same as start --agent claude",
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); len(args) > 0 && at != 0 {
				return cli.Usage("the agent's arguments follow --: cloister start -- "+strings.Join(args, " "),
					"start: unexpected argument %q", args[0])
			}
			cmd.LocalFlags().Visit(func(flag *pflag.Flag) {
				if !slices.Contains([]string{"agent", "branch", "name", "project", "detach", "report"}, flag.Name) {
					f.typed = append(f.typed, "--"+flag.Name)
				}
			})
			return a.start(cmd.Context(), f, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	a.orderFlags(&f.Order, c, strings.Join(agent.Names(), ", ")+" or another program (defaults.agent unless said)")
	f.detachable(c)
	fl := c.Flags()
	fl.DurationVar(&f.Idle, "idle-timeout", 0, "end the cloister when nothing was typed or written for this time")
	return c
}

// writtenOut makes AGENT [ARG...] start --agent AGENT -- ARG...
func (a *app) writtenOut(root *cobra.Command, args []string) []string {
	at := slices.IndexFunc(args, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if at < 0 {
		return args
	}
	if cmd, _, err := root.Find(args[at:]); err == nil && cmd != root || args[at] == "help" || strings.HasPrefix(args[at],
		cobra.ShellCompRequestCmd) {
		return args
	}
	if !slices.Contains(a.agents(), args[at]) {
		return args
	}
	return slices.Concat(args[:at], []string{"start", "--agent", args[at], "--"}, args[at+1:])
}

// agents are the names that stand for start --agent NAME: those with needs of
// their own, and those that a person configured.
func (a *app) agents() []string {
	names := agent.Names()
	if c, _, err := a.Load(); err == nil { // a bad file is reported by the command that needs it
		names = append(names, slices.Sorted(maps.Keys(c.Agents))...)
		names = append(names, c.Defaults.Agent)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// start starts or finds the cloister and attaches to it. The cloister itself is
// another process, of a session of its own: it does not end with this terminal.
func (a *app) start(ctx context.Context, f *startFlags, args []string) error {
	if err := f.Check(); err != nil {
		return err
	}
	attach := !f.detach
	argv, root, err := a.agentHere(ctx, f, args)
	if err != nil {
		return err
	}
	if attach && f.Idle == 0 && agent.Find(f.Agent).IsHeadless(args) {
		return a.run(ctx, &f.runFlags, argv) // it answers and ends: there is nothing to come back to
	}
	if attach && !(term.IsTerminal(int(a.Stdin.Fd())) && term.IsTerminal(int(a.Stdout.Fd()))) {
		a.Notice("cloister: no terminal to attach: it runs in the background")
		attach = false
	}
	name, err := a.rejoin(ctx, f, root)
	if err != nil {
		return err
	}
	joined := name != ""
	if !joined {
		f.Args = args
		if cols, rows, err := term.GetSize(int(a.Stdout.Fd())); err == nil && attach && cols > 0 && rows > 0 {
			f.Cols, f.Rows = cols, rows
		}
		answer, err := a.detach(ctx, f.Order)
		if err != nil {
			return err
		}
		name, joined = answer.Name, answer.Joined
	}
	if joined {
		if len(args) > 0 {
			f.typed = append(f.typed, "what follows --")
		}
		if len(f.typed) > 0 {
			a.Notice("cloister: %s runs already; from its next start on there is: %s", name, strings.Join(f.typed, ", "))
		}
	}
	if !attach {
		a.Line("%s", name)
		return nil
	}
	return a.attach(ctx, name)
}

// agentHere is the command line of the agent that was typed, or else of the
// project's, with the project's top.
func (a *app) agentHere(ctx context.Context, f *startFlags, args []string) (argv []string, root string, err error) {
	dirs, err := a.Dirs()
	if err != nil {
		return nil, "", &cli.UnbuiltError{Err: err}
	}
	host, err := a.Resolver(dirs)
	if err != nil {
		return nil, "", &cli.UnbuiltError{Err: err}
	}
	p, err := a.project(ctx, &f.runFlags, dirs, a.RealHome(), host)
	if err != nil {
		return nil, "", asUnbuilt(err)
	}
	cfg, err := a.wordsOf(dirs, p)
	if err != nil {
		return nil, "", &cli.UnbuiltError{Err: err}
	}
	f.Agent = cmp.Or(f.Agent, cfg.Defaults.Agent)
	return append(agent.Find(f.Agent).With(cfg.Agents[f.Agent].Args, nil).Argv, args...), string(p.Root), nil
}

// rejoin looks for the cloister that start means; empty where there is none.
// Should two look at once, the guardian grants one (hold).
func (a *app) rejoin(ctx context.Context, f *startFlags, root string) (string, error) {
	c, err := a.Ensure(ctx)
	if err != nil {
		return "", &cli.UnbuiltError{Err: err}
	}
	defer c.Close()
	live, err := c.Sessions(ctx, false)
	if err != nil {
		return "", &cli.UnbuiltError{Err: err}
	}
	for _, s := range live {
		if s.Terminal && s.Path == root && s.Agent == f.Agent && (f.Name == "" || f.Name == s.Name) {
			return s.Name, nil
		}
	}
	return "", nil
}

// wordsOf is the configuration of one project.
func (a *app) wordsOf(dirs xdg.Dirs, p workspace.Project) (*config.Config, error) {
	cfg, _, err := config.Load(dirs.Config)
	if err != nil {
		return nil, err
	}
	host, err := a.Resolver(dirs)
	if err != nil {
		return nil, err
	}
	words, err := a.OfProject(dirs, host.Places(), p, cfg)
	return words.Config, err
}

// asUnbuilt keeps the error for wrong words what it is.
func asUnbuilt(err error) error {
	if _, ok := errors.AsType[*cli.UsageError](err); ok {
		return err
	}
	return &cli.UnbuiltError{Err: err}
}

// hold is the process behind start: it holds the cloister and its terminal until
// the agent ends.
func (a *app) hold(ctx context.Context, f *startFlags, args []string) error {
	fail := func(err error) { _ = f.reply.Send(failure(f.Verb, err)) }
	if f.Rejoin {
		_, root, err := a.agentHere(ctx, f, args)
		if err != nil {
			fail(err)
			return nil
		}
		name, err := a.rejoin(ctx, f, root)
		switch {
		case err != nil:
			fail(err)
			return nil
		case name != "":
			_ = f.reply.Send(launch.Answer{Name: name, Joined: true})
			return nil
		}
	}
	log := terminal.NewLog(a.Stdout)
	signals := make(chan os.Signal, 16)
	hub, err := terminal.New(terminal.Options{Size: vscreen.Size{Cols: f.Cols, Rows: f.Rows}, Log: log, Resized: func() {
		select {
		case signals <- syscall.SIGWINCH:
		default: // there are others under way
		}
	}})
	if err != nil {
		fail(err)
		return nil
	}
	at := *a
	at.Stdin, at.Stdout, at.Stderr = hub.Terminal(), hub.Terminal(), hub.Terminal()
	s, dirs, err := at.agentShim(ctx, f, args)
	if err != nil {
		fail(err)
		return hub.Finish(terminal.End{})
	}
	defer s.Client.Close()
	cli.PassSignals(signals)
	defer signal.Stop(signals)
	var door terminal.Door
	defer door.Close()
	s.Signals = signals
	var noticed []string
	var noting sync.Mutex
	s.Notify = func(text string) {
		noting.Lock()
		defer noting.Unlock()
		noticed = append(noticed, "cloister: "+text)
	}
	s.Held.Above = func(text string) {
		s.Notify(text) // for people who do not look now
		hub.Note("cloister: " + text)
	}
	name := ""
	s.Granted = func(grant api.SessionGrant) error {
		name = grant.Name
		if err := f.reply.NameLog(outputFile(dirs, grant.Name)); err != nil {
			return err
		}
		if err := door.Open(terminal.DoorOf(dirs.Runtime, grant.ID), a.UID); err != nil {
			return err
		}
		door.Serve(hub, a.UID)
		return nil
	}
	s.Running = func() { _ = f.reply.Send(launch.Answer{Name: name}) }
	summary, err := report.Open(f.Report)
	if err != nil {
		fail(cli.Usage("", f.Verb+": --report: %v", err))
		return hub.Finish(terminal.End{})
	}
	ctx, cancel := context.WithCancel(ctx)
	idle := make(chan struct{})
	if f.Idle > 0 {
		end := make(chan string, 1)
		s.End = end
		go func() {
			defer close(idle)
			hub.WatchIdle(ctx, f.Idle, end)
		}()
	} else {
		close(idle)
	}

	quiet := at.overlays().CheckpointQuiet(ctx, f.kept, overlays.QuietFor)
	res, err := s.Run(ctx)
	left := quiet()
	kept, kerr := overlays.End(context.WithoutCancel(ctx), f.kept, overlays.Worker(f.Agent, s.Argv), dirs.Data)
	cancel()
	<-idle
	door.Close()
	if !res.Ran {
		var running *api.Error
		if errors.As(err, &running) && running.Code == api.CodeRunning {
			_ = f.reply.Send(launch.Answer{Name: running.Session, Joined: true})
			return hub.Finish(terminal.End{})
		}
		fail(a.withInstall(f, err, res.Notices))
		return hub.Finish(terminal.End{Status: exitStatus(unbuilt(f.Verb, err))})
	}
	lines := ending.Lines(res, ending.Options{Whole: true, Again: startAgain})
	end := terminal.End{Status: res.Status.ExitCode(), Notices: slices.Concat(noticed, kept, left, lines)}
	if err = errors.Join(err, kerr); err != nil {
		end.Notices = append(end.Notices, "cloister: "+err.Error())
	}
	if err := summary.Write(res, end.Status); err != nil {
		end.Notices = append(end.Notices, "cloister: "+err.Error())
	}
	if err := hub.Finish(end); err != nil {
		return err
	}
	a.Notices(end.Notices)
	return nil
}

// startAgain makes the hint for a run one for an agent.
func startAgain(hint string) string {
	rest, ok := strings.CutPrefix(hint, "cloister run ")
	if !ok {
		return hint
	}
	return "cloister start " + strings.TrimSuffix(rest, " -- CMD")
}

// withInstall tells how to get an agent that is not there.
func (a *app) withInstall(f *startFlags, err error, noticed []string) error {
	if exitStatus(err) != cli.StatusNotFound {
		return err
	}
	err = cli.Hinted(err, noticed...)
	if how := agent.Find(f.Agent).Install; how != "" {
		return cli.Hinted(err, "get it: "+how, "cloister start --agent NAME starts another")
	}
	if near := nearest.Word(f.Agent, a.agents()); near != "" && near != f.Agent {
		return cli.Hinted(err, "did you mean --agent "+near+"?")
	}
	return withWay(&f.runFlags, err, noticed)
}

// agentShim gathers what the agent's cloister depends on.
func (a *app) agentShim(ctx context.Context, f *startFlags, args []string) (*session.Shim, xdg.Dirs, error) {
	argv, _, err := a.agentHere(ctx, f, args)
	if err != nil {
		return nil, xdg.Dirs{}, err
	}
	s, dirs, err := a.shim(ctx, &f.runFlags, argv)
	if err != nil {
		return nil, dirs, err
	}
	s.Request.Terminal = true
	if s.Term.Term == "" || s.Term.Term == "dumb" {
		s.Term.Term = "xterm-256color" // as the virtual screen draws
	}
	return s, dirs, nil
}
