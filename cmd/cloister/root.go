package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/images"
	"cloister/cmd/cloister/judges"
	"cloister/cmd/cloister/overlays"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The headings of the help.
const (
	ofCloisters = "Cloisters:"
	ofChanges   = "What they changed:"
	ofRules     = "What they may do:"
	ofMachine   = "This machine:"
)

// nouns are the commands.
func nouns() []noun {
	return []noun{
		{"run", ofCloisters, (*app).runCommand},
		{"srt", ofCloisters, (*app).srtCommand},
		{"start", ofCloisters, (*app).startCommand},
		{"shim", ofCloisters, (*app).shimCommand},
		{"attach", ofCloisters, (*app).attachCommand},
		{"list", ofCloisters, (*app).listCommand},
		{"stop", ofCloisters, (*app).stopCommand},
		{"exec", ofCloisters, (*app).execCommand},
		{"review", ofCloisters, func(a *app) *cobra.Command { return a.reviews().Command() }},
		{"logs", ofCloisters, (*app).logsCommand},
		{"path", ofCloisters, (*app).pathCommand},
		{"worktree", ofCloisters, (*app).worktreeCommand},
		{"project", ofCloisters, func(a *app) *cobra.Command { return a.projects().Command() }},
		{"diff", ofChanges, overlay((*overlays.Commands).DiffCommand)},
		{"apply", ofChanges, overlay((*overlays.Commands).ApplyCommand)},
		{"discard", ofChanges, overlay((*overlays.Commands).DiscardCommand)},
		{"undo", ofChanges, overlay((*overlays.Commands).UndoCommand)},
		{"checkpoint", ofChanges, overlay((*overlays.Commands).CheckpointCommand)},
		{"checkpoints", ofChanges, overlay((*overlays.Commands).CheckpointsCommand)},
		{"restore", ofChanges, overlay((*overlays.Commands).RestoreCommand)},
		{"fork", ofChanges, overlay((*overlays.Commands).ForkCommand)},
		{"compare", ofChanges, overlay((*overlays.Commands).CompareCommand)},
		{"approvals", ofRules, func(a *app) *cobra.Command { return a.approvals().Command() }},
		{"policy", ofRules, func(a *app) *cobra.Command { return a.policies().Command() }},
		{"mcp", ofRules, (*app).mcpCommand},
		{"secret", ofRules, func(a *app) *cobra.Command { return a.secrets().Command() }},
		{"audit", ofRules, func(a *app) *cobra.Command { return a.records().AuditCommand() }},
		{"config", ofRules, (*app).configCommand},
		{"init", ofMachine, (*app).initCommand},
		{"image", ofMachine, func(a *app) *cobra.Command { return images.Command(&a.App) }},
		{"devcontainer", ofMachine, func(a *app) *cobra.Command { return a.devcontainers().Command() }},
		{"doctor", ofMachine, (*app).doctorCommand},
		{"guardian", ofMachine, (*app).guardianCommand},
		{"window", ofRules, (*app).windowCommand},
		{"setup", ofMachine, func(a *app) *cobra.Command { return a.setup().Command() }},
		{"lsm", ofMachine, func(a *app) *cobra.Command { return judges.Command(&a.App) }},
		{"prune", ofMachine, (*app).pruneCommand},
		{"uninstall", ofMachine, (*app).uninstallCommand},
		{"serve", ofMachine, func(a *app) *cobra.Command { return a.server().Command() }},
		{"completion", ofMachine, (*app).completionCommand},
		{"version", ofMachine, (*app).versionCommand},
	}
}

type noun struct {
	name, heading string
	make          func(*app) *cobra.Command
}

// app is one invocation, with the commands of this package.
type app struct{ cli.App }

// newRoot is the tree of every command or, where only names one, of that alone:
// a start has no use for the flags of sixteen others.
func newRoot(a *app, only string) *cobra.Command {
	all := nouns()
	if i := slices.IndexFunc(all, func(d noun) bool { return d.name == only }); i >= 0 {
		all = all[i : i+1]
	}
	verbs := make([]*cobra.Command, len(all))
	for i, d := range all {
		verbs[i] = d.make(a)
		verbs[i].GroupID = d.heading
	}
	root := cli.Group("cloister", "Run a coding agent in an enclosure", verbs...)
	root.Long = "Cloister runs a coding agent, or any command, where it sees the project and a\nread-only toolchain, " +
		"and where the only way out is one that a policy allows."
	root.Example = "  cloister claude                       the agent claude in this project, to come back to\n" +
		"  cloister run -- CMD                   one command, gone afterwards\n" +
		"  cloister approvals watch              see what they ask for, and answer\n" +
		"  cloister policy explain example.com   what is allowed, and why"
	root.RunE = func(cmd *cobra.Command, _ []string) error { return a.here(cmd.Context()) }
	root.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.agents(), cobra.ShellCompDirectiveNoFileComp
	}
	root.Version = cli.Version()
	root.SetVersionTemplate("cloister {{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	for _, heading := range []string{ofCloisters, ofChanges, ofRules, ofMachine} {
		root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	}
	root.SetHelpCommand(helpCommand())
	root.SetHelpCommandGroupID(ofMachine)
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = worded
	root.SetUsageTemplate(usageOf(root))
	root.SetOut(a.Out)
	root.SetErr(a.Stderr)
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notices, only errors")
	root.PersistentFlags().BoolVar(&a.Debug, "debug", false, "tell more, on stderr")
	return root
}

// execute runs one command line.
func (a *app) execute(ctx context.Context, args []string) error {
	only := ""
	if len(args) > 0 {
		only = args[0]
	}
	root := newRoot(a, only)
	a.Args = a.writtenOut(root, args)
	args = a.Args
	root.SetArgs(args)
	// An unknown command is reported before its flags are looked at: no command
	// has those.
	if cmd, rest, err := root.Find(args); err == nil && cmd.HasSubCommands() &&
		cmd.Annotations[cli.TakesNames] == "" && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		if !strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd) && rest[0] != "help" {
			return cli.UnknownCommand(cmd, rest)
		}
	}
	return root.ExecuteContext(ctx)
}

// usageOf is cobra's own page but for its first lines: a noun has no use alone.
func usageOf(root *cobra.Command) string {
	page := root.UsageTemplate()
	page = strings.Replace(page, "{{if .Runnable}}\n  {{.UseLine}}{{end}}",
		"{{if or (not .HasAvailableSubCommands) .Annotations.names .Annotations.alone}}\n  {{.UseLine}}{{end}}", 1)
	page = strings.Replace(page, "{{.CommandPath}} [command]{{end}}",
		"{{.CommandPath}} COMMAND{{if not .HasParent}}\n  {{.CommandPath}} AGENT [ARG...]{{end}}{{end}}", 1)
	page = strings.Replace(page, "Available Commands:", "Commands:", 1)
	page = strings.Replace(page, "Global Flags:", "Flags of every command:", 1)
	return strings.Replace(page, "Use \"{{.CommandPath}} [command] --help\" for more information about a command.",
		"{{.CommandPath}} COMMAND --help explains one of them.", 1)
}

// flagError puts what pflag refused into the house's words, with the nearest
// flag that there is.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return cli.Usage(fmt.Sprintf("%s --help explains the flags", cmd.CommandPath()), "%s: %v", cli.Words(cmd),
			flagReason(err))
	}
	name, typed := "--"+unknown.GetSpecifiedName(), unknown.GetSpecifiedName()
	if group := unknown.GetSpecifiedShortnames(); group != "" {
		name = "-" + unknown.GetSpecifiedName()
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	hint := fmt.Sprintf("%s --help lists them", cmd.CommandPath())
	if near := nearest.Word(typed, names); near != "" {
		hint = fmt.Sprintf("did you mean --%s?", near)
	}
	return cli.Usage(hint, "unknown flag %s for %s", name, cmd.CommandPath())
}

// flagReason says in a person's words why a value does not fit its flag.
func flagReason(err error) string {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err.Error()
	}
	kinds := map[string]string{
		"duration": "a length of time such as 90s, 10m or 2h", "int": "a whole number", "int64": "a whole number",
		"float64": "a number such as 2 or 0.5", "bool": "true or false",
	}
	kind, ok := kinds[bad.GetFlag().Value.Type()]
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("--%s %q is not %s", bad.GetFlag().Name, bad.GetValue(), kind)
}

// worded refuses an empty word where a name or a flag's value belongs, which a script's unset variable leaves and which
// would mean the current folder's project, and flags that exclude each other.
func worded(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "" && cmd.ArgsLenAtDash() != 0 && cmd.Name() != "srt" && !cmd.Hidden {
		return cli.Usage("usage: "+cmd.UseLine(), "%s: an empty word stands where a name belongs", cli.Words(cmd))
	}
	if flag := emptyFlag(cmd); flag != "" && cmd.Name() != "srt" {
		return cli.Usage("leave it out for what is so without it", "%s: --%s is empty", cli.Words(cmd), flag)
	}
	if err := cmd.ValidateFlagGroups(); err == nil {
		return nil
	}
	var typed []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if len(f.Annotations) > 0 {
			typed = append(typed, "--"+f.Name)
		}
	})
	return cli.Usage("", "%s: %s exclude each other", cli.Words(cmd), strings.Join(typed, " and "))
}

// emptyFlag is a flag that was typed with an empty word: a script's unset variable would choose what is so without
// it, such as the live files instead of an overlay. Words for people may be empty.
func emptyFlag(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "func" { // it looks at its words itself
			return
		}
		words := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			words = list.GetSlice()
		}
		if slices.Contains(words, "") && !slices.Contains([]string{"message", "label", "prompt"}, f.Name) {
			name = f.Name
		}
	})
	return name
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range at.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at, rest, err := cmd.Root().Find(args)
			if err != nil {
				return cli.Usage("", "help: %v", err)
			}
			if len(rest) > 0 {
				return cli.UnknownCommand(at, rest)
			}
			at.InitDefaultHelpFlag()
			at.InitDefaultVersionFlag()
			return at.Help()
		},
	}
}
