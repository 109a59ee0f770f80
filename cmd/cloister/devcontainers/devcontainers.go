// Package devcontainers is the commands about a repository's devcontainer, and what it gives to
// a run: its image, its variables, ports and limits, its services.
//
// The promise: nothing of a devcontainer is fetched, built or started before a person agreed to
// exactly these bytes, and what is refused of it is listed with its reason.
//
// It judges nothing: devcontainer/demand does. It starts no cloister by itself either: a run's
// own code does, which is handed in.
//
// Most readers want [Commands].
package devcontainers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/cmd/cloister/cli"
	"cloister/devcontainer"
	"cloister/devcontainer/demand"
	"cloister/devcontainer/features"
	"cloister/devcontainer/trust"
	"cloister/internal/linediff"
	"cloister/internal/realpath"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/launch"
	"cloister/workspace"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Commands are the commands of one invocation.
type Commands struct {
	*cli.App
	// Driver is the driver of a level of isolation.
	Driver func(isolation string) (sandbox.Driver, error)
	// System is the image of an order as a driver knows it. It stays while this process lives.
	System func(context.Context, *launch.Order, xdg.Dirs, sandbox.Driver) (sandbox.Root, []string, error)
	// Flags gives a command the flags of run.
	Flags func(o *launch.Order, c *cobra.Command, agent string)
	// Detach starts a cloister in the background.
	Detach func(context.Context, launch.Order) (launch.Answer, error)
	// Exec runs a command in a cloister; its error carries the command's exit status.
	Exec func(ctx context.Context, name string, argv, env []string) error
	// Lives reports whether a cloister runs.
	Lives func(ctx context.Context, name string) bool
	// Output is the file of what a cloister in the background prints.
	Output func(d xdg.Dirs, name string) string
}

// Command is devcontainer with its verbs.
func (a *Commands) Command() *cobra.Command {
	return cli.Group("devcontainer", "A repository's devcontainer as the environment, without its powers",
		a.checkCommand(), a.trustCommand(), a.buildCommand(),
		a.upCommand(), a.execCommand())
}

// flags are the flags that every verb of devcontainer has.
type flags struct {
	project string
	env     []string
	sources []string // of features, that a person has just agreed to
}

func (f *flags) register(c *cobra.Command) {
	c.Flags().StringVarP(&f.project, "project", "C", ".", "the project, instead of the current folder's")
	c.Flags().StringArrayVarP(&f.env, "env", "e", nil, "`NAME` of a variable that ${localEnv:NAME} may have")
	_ = c.RegisterFlagCompletionFunc("project", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	})
}

// complete offers the devcontainers of the current folder's project.
func (a *Commands) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	p, err := a.FindProject(".")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	root, err := os.OpenRoot(string(p.Root))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer root.Close()
	names, _ := devcontainer.Named(root) // Tab is no place for errors
	return names, cobra.ShellCompDirectiveNoFileComp
}

// read reads the devcontainer of a project, with the variables that -e gives.
func (a *Commands) read(
	p workspace.Project, path string, f flags,
) (*devcontainer.Devcontainer, error) {
	o, err := a.options(p, path, f)
	if err != nil {
		return nil, err
	}
	return devcontainer.Read(o)
}

func (a *Commands) options(p workspace.Project, path string, f flags) (devcontainer.Options, error) {
	cfg, _, err := a.Load()
	if err != nil {
		return devcontainer.Options{}, err
	}
	d, err := a.Dirs()
	if err != nil {
		return devcontainer.Options{}, err
	}
	agreed, err := trust.In(d.State).Sources(string(p.Main))
	if err != nil {
		return devcontainer.Options{}, err
	}
	given := map[string]string{"HOME": a.Home(), "USER": a.Env.Get("USER")}
	for _, e := range f.env {
		name, value, set := strings.Cut(e, "=")
		if !set {
			value = a.Env.Get(name)
		}
		given[name] = value
	}
	return devcontainer.Options{
		Project: string(p.Root), Path: path, Home: a.RealHome(),
		LocalEnv: func(name string) (string, bool) { v, ok := given[name]; return v, ok },
		Reserved: session.AuthorityVariables(),
		Sources:  slices.Concat(cfg.Devcontainer.Features, agreed, f.sources), Features: Features(d),
	}, nil
}

// checked is devcontainer check --json.
type checked struct {
	File     string                `json:"file"`
	Kind     devcontainer.Kind     `json:"kind"`
	Digest   string                `json:"digest"`
	Trusted  bool                  `json:"trusted"`
	Folder   string                `json:"workspace_folder"`
	Counts   map[string]int        `json:"counts"`
	Findings []demand.Finding      `json:"findings"`
	Pulled   []devcontainer.Pulled `json:"pulled"`
}

func (a *Commands) checkCommand() *cobra.Command {
	var f flags
	var asJSON bool
	c := &cobra.Command{
		Use: "check [PATH]", Short: "Print what of a devcontainer is honoured, changed and refused, each with its reason",
		Long: `Print what of a devcontainer is honoured, changed and refused, each with its reason and
the line of its key. Nothing of it runs, and nothing is fetched. PATH is the file, its
folder, or the name of one of several.`,
		Example: "  cloister devcontainer check\n  cloister devcontainer check .devcontainer/db --json",
		Args:    cli.Args(0, 1), ValidArgsFunction: a.complete,
		RunE: func(_ *cobra.Command, args []string) error { return a.check(f, args, asJSON) },
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// lookedAt is a devcontainer with its project, and whether a person agreed to it.
type lookedAt struct {
	*devcontainer.Devcontainer
	project workspace.Project
	trust   trust.Store
	trusted bool
}

// path is where its file is on this machine.
func (l *lookedAt) path() string { return filepath.Join(string(l.project.Root), l.File) }

func (a *Commands) look(f flags, args []string) (lookedAt, error) {
	d, err := a.Dirs()
	if err != nil {
		return lookedAt{}, err
	}
	p, err := a.FindProject(f.project)
	if err != nil {
		return lookedAt{}, err
	}
	path, err := pathIn(p, args)
	if err != nil {
		return lookedAt{}, err
	}
	l := lookedAt{project: p, trust: trust.In(d.State)}
	if l.Devcontainer, err = a.read(p, path, f); err != nil {
		return l, err
	}
	l.trusted, err = l.trust.Holds(string(p.Main), l.File, l.Digest)
	l.trusted = l.trusted && !l.Unpinned()
	return l, err
}

// pathIn is a path as it was typed, from the project's top.
func pathIn(p workspace.Project, args []string) (string, error) {
	if len(args) == 0 || args[0] == "" {
		return "", nil
	}
	if _, err := os.Lstat(args[0]); err != nil || strings.HasPrefix(args[0], ".devcontainer") {
		return args[0], nil // a name, or as the project's own files say it
	}
	abs, err := filepath.Abs(args[0])
	if err != nil {
		return "", fmt.Errorf("devcontainer: %w", err)
	}
	if dir, err := realpath.Of(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(dir, filepath.Base(abs))
	}
	rel, err := filepath.Rel(string(p.Root), abs)
	if err != nil {
		return "", fmt.Errorf("devcontainer: %w", err)
	}
	return rel, nil
}

func (a *Commands) check(f flags, args []string, asJSON bool) error {
	l, err := a.look(f, args)
	if err != nil {
		return err
	}
	if asJSON {
		counts := map[string]int{"honoured": 0, "changed": 0, "refused": 0, "kept": 0}
		for _, f := range l.Findings {
			counts[string(f.Outcome)]++
		}
		return a.JSON(checked{l.File, l.Kind, l.Digest, l.trusted, l.WorkspaceFolder, counts, l.Findings,
			l.Pulled})
	}
	a.findings(l.Findings, demand.Refused, demand.Changed, demand.Honoured, demand.Kept)
	if !l.trusted {
		a.Notice("hint: nothing of it is used before you agree to it: cloister devcontainer trust")
	}
	return nil
}

// findings prints those of some outcomes, in this order.
func (a *Commands) findings(list []demand.Finding, outcomes ...demand.Outcome) {
	rows := [][]string{}
	for _, o := range outcomes {
		for _, f := range list {
			if f.Outcome != o {
				continue
			}
			reason := f.Reason
			if f.Hint != "" {
				reason += " (" + f.Hint + ")"
			}
			rows = append(rows, []string{string(o), f.File + ":" + strconv.Itoa(f.Line), f.Key, shortened(f.Value), reason})
		}
	}
	if len(rows) > 0 {
		a.Table(append([][]string{{"OUTCOME", "PLACE", "KEY", "VALUE", "REASON"}}, rows...))
	}
}

// shortened is a value as a list shows it.
func shortened(s string) string {
	const most = 48
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func (a *Commands) trustCommand() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use: "trust [PATH]", Short: "Agree to a devcontainer, in exactly these bytes",
		Long: `Show a devcontainer as changes to what was agreed to before, with what is refused of it
and the files that it pulls in, and agree to exactly these bytes. At a terminal it asks
first. A later change of any of them waits for another trust. Features of registries are
fetched for it, through the guardian, and pinned in the lock file beside devcontainer.json;
a source that the configuration does not name is asked about.`,
		Args: cli.Args(0, 1), ValidArgsFunction: a.complete,
		RunE: func(cmd *cobra.Command, args []string) error { return a.agree(cmd.Context(), f, args) },
	}
	f.register(c)
	return c
}

func (a *Commands) agree(ctx context.Context, f flags, args []string) error {
	l, err := a.withSources(ctx, &f, args)
	if err != nil {
		return err
	}
	if l.trusted {
		a.Notice("it is trusted already")
		return nil
	}
	before, err := l.trust.Get(string(l.project.Main), l.File)
	if err != nil {
		return err
	}
	for _, line := range linediff.Changes(before.Text, l.Text()) {
		a.Line("%s", line)
	}
	pulled := map[string]string{}
	for _, p := range l.Pulled {
		pulled[p.Path] = p.Digest
		if p.Path != l.File && before.Pulled[p.Path] != p.Digest {
			a.Line("file %s, %d bytes", p.Path, p.Size)
		}
	}
	for name := range before.Pulled {
		if pulled[name] == "" {
			a.Line("no longer %s", name)
		}
	}
	a.findings(l.Findings, demand.Refused)
	if err := a.Out.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	if term.IsTerminal(int(a.Stdin.Fd())) {
		if yes, err := a.agrees("Agree to this?"); err != nil || !yes {
			return errors.Join(errors.New("trust devcontainer: not agreed to"), err)
		}
	}
	err = l.trust.Put(trust.Agreement{
		Project: string(l.project.Main), File: l.File, Digest: l.Digest, Agreed: time.Now().UTC().Round(0), Text: l.Text(),
		Pulled: pulled, Sources: slices.Concat(before.Sources, f.sources),
	})
	if err != nil {
		return err
	}
	a.Notice("%s is trusted: %s", l.File, l.Digest)
	return nil
}

// withSources is a devcontainer with the features of registries that it may have: those of
// sources that the person agreed to are fetched and pinned.
func (a *Commands) withSources(ctx context.Context, f *flags, args []string) (lookedAt, error) {
	l, err := a.look(*f, args)
	for asked := map[string]bool{}; err == nil; {
		var unknown []features.Ref
		for _, r := range l.Unknown {
			if !asked[r.Name] {
				asked[r.Name], unknown = true, append(unknown, r)
			}
		}
		more, aerr := a.askSources(unknown)
		if aerr != nil {
			return l, aerr
		}
		f.sources = append(f.sources, more...)
		if len(more) > 0 {
			if l, err = a.look(*f, []string{l.path()}); err != nil {
				return l, err
			}
		}
		if len(l.Absent) == 0 {
			return l, nil
		}
		l, err = a.withFeatures(ctx, *f, l, true) // what they depend on may be of another source
	}
	return l, err
}
