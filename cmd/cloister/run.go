package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"

	"cloister/agent"
	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/devcontainers"
	"cloister/cmd/cloister/overlays"
	"cloister/config"
	"cloister/internal/shebang"
	"cloister/internal/shellword"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/dressing"
	"cloister/session/ending"
	"cloister/session/launch"
	"cloister/session/memory"
	"cloister/session/report"
	"cloister/state/store"

	"github.com/spf13/cobra"
)

// runFlags are the flags of run, as typed, and what this process has of their run.
type runFlags struct {
	launch.Order
	detach bool
	reply  *launch.Reply      // to the process that started this one as a shim; nil for none
	passed *memory.Passed     // what that one passed it
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
			"  cloister run --allow api.example.com -- claude -p 'fix the tests' --dangerously-skip-permissions\n" +
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
	a.orderFlags(&f.Order, c,
		"the agent that CMD is: it gets the environment that one needs; list, policy and audit name it")
	f.detachable(c)
	c.Flags().BoolVar(&acp, "acp", false,
		"CMD is an agent that an editor started: it speaks the Agent Client Protocol, and gets none of the editor's powers")
	return c
}

// orderFlags gives a command the flags of run and start, to which an agent is not
// the same.
func (a *app) orderFlags(f *launch.Order, c *cobra.Command, agentUsage string) {
	fl := c.Flags()
	fl.SetInterspersed(false)
	fl.StringVar(&f.Agent, "agent", "", agentUsage)
	fl.StringVar(&f.Isolation, "isolation", "", "how the enclosure is built: "+strings.Join(config.Levels(), ", ")+
		" or auto")
	fl.StringVar(&f.Image, "image", "", "the system inside: an `IMAGE` by name, or ./ARCHIVE.tar, ./OCI-LAYOUT")
	fl.StringVar(&f.Name, "name", "", "name of the cloister (made from the project's when absent)")
	fl.StringVarP(&f.Project, "project", "C", "", "the project, instead of the current folder's")
	fl.StringVarP(&f.Branch, "branch", "b", "", "work in a worktree of this branch, made where there is none")
	fl.StringVar(&f.Mode, "mode", "", "enforce, shadow (record what would be denied) or record")
	fl.StringVar(&f.Workspace, "workspace", "",
		"live (the project's files), overlay (what is written is kept apart until it is applied), "+
			"scratch (it is gone afterwards), git (a clone, whose commits come back on the branch cloister/NAME) or none")
	fl.StringArrayVar(&f.Allow, "allow", nil, "allow `DOMAIN[:PORT]` for this session")
	fl.StringArrayVar(&f.Deny, "deny", nil, "deny `DOMAIN[:PORT]` for this session")
	fl.StringArrayVar(&f.Expose, "expose", nil, "show `PATH[:ro|:rw]` of the host")
	fl.StringArrayVar(&f.Refs, "ref", nil, "show `DIR` read-only at /refs/NAME")
	fl.StringArrayVarP(&f.Env, "env", "e", nil, "set `NAME=VALUE` inside, or pass the host's NAME")
	fl.StringArrayVarP(&f.Publish, "publish", "p", nil,
		"make a port inside reachable at `[HOST:]PORT` of this machine's 127.0.0.1")
	fl.StringVar(&f.Memory, "memory", "", "memory limit, such as 8GiB")
	fl.Float64Var(&f.CPUs, "cpus", 0,
		"processors, such as 2 or 0.5; 0 means no limit, also where the configuration has one")
	fl.Int64Var(&f.PIDs, "pids", 0, "processes and threads (4096 unless said); there is always a limit")
	fl.DurationVar(&f.Timeout, "timeout", 0, "end the command after this time, such as 30m; 0 means never")
	c.PreRunE = func(*cobra.Command, []string) error {
		f.AllCPUs = fl.Changed("cpus") && f.CPUs == 0
		if fl.Changed("pids") && f.PIDs == 0 {
			return cli.Usage("leave it out for 4096, or the configuration's; or write one that is large enough",
				"%s: --pids 0: there is always a limit", f.Verb)
		}
		return nil
	}
	fl.BoolVar(&f.NoNetwork, "no-network", false, "no network at all, not even the guardian's")
	fl.StringArrayVar(&f.Accept, "accept", nil, "go on without a guarantee: `residue:NAME`")
	fl.StringArrayVar(&f.Policy, "policy", nil, "a Cedar `FILE` for this session")
	fl.StringVar(&f.Report, "report", "", "write a JSON summary of the run to `FILE`")
	fl.StringVar(&f.Devcontainer, "devcontainer", "",
		"the environment of this project's devcontainer, or of the one at `PATH`; none for the configuration's")
	fl.Lookup("devcontainer").NoOptDefVal = devcontainers.Here
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
	summary, err := report.Open(f.Report)
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
			_ = f.reply.Send(failure(f.Verb, err))
		}
		if _, ok := errors.AsType[*cli.UsageError](err); ok {
			return err
		}
		return &cli.UnbuiltError{Err: err}
	}
	defer s.Client.Close()
	s.Signals = cli.Signals()
	return a.carryOut(ctx, f, s, dirs, argv, summary, announce(f, s, dirs))
}

// carryOut runs a shim to its end, and tells what came of it. ready is given why no
// command ran; argv is the command as it was typed.
func (a *app) carryOut(
	ctx context.Context, f *runFlags, s *session.Shim, dirs xdg.Dirs, argv []string, summary *report.File,
	ready func(error),
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
	kept, kerr := overlays.End(counting, f.kept, overlays.Worker(f.Agent, argv), dirs.Data)
	counted()
	a.Log().Debug("the session is over", "name", res.Name, "ran", res.Ran, "status", res.Status.ExitCode(), "took",
		res.Duration, "error", err)
	if !res.Ran {
		err = withWay(f, err, res.Notices)
		err = errors.Join(err, summary.Write(res, exitStatus(unbuilt(f.Verb, err))))
		ready(err)
		return unbuilt(f.Verb, err)
	}
	err = errors.Join(err, kerr, summary.Write(res, res.Status.ExitCode()))
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
			hints = append(hints, "an image with "+name+": cloister image build, or of this machine's programs: cloister "+
				"image build --from-host --agent "+name)
		}
		return cli.Hinted(err, hints...)
	}
	if by := interpreter(execute.Command); by != "" {
		err = cli.Hinted(err, execute.Command+" is a script for "+by+", which has to be inside, too")
	}
	return cli.Hinted(err,
		"inside are /usr, /opt, and the toolchains that PATH finds; --expose PATH shows more of the host")
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
