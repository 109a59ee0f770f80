package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"cloister/internal/nearest"
	"cloister/internal/shellword"

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
		{"run", ofCloisters, (*app).runCommand}, {"srt", ofCloisters, (*app).srtCommand}, {"start", ofCloisters, (*app).startCommand}, {"shim", ofCloisters, (*app).shimCommand}, {"attach", ofCloisters, (*app).attachCommand},
		{"list", ofCloisters, (*app).listCommand}, {"stop", ofCloisters, (*app).stopCommand}, {"exec", ofCloisters, (*app).execCommand},
		{"review", ofCloisters, (*app).reviewCommand}, {"logs", ofCloisters, (*app).logsCommand}, {"path", ofCloisters, (*app).pathCommand}, {"worktree", ofCloisters, (*app).worktreeCommand},
		{"project", ofCloisters, (*app).projectCommand},
		{"diff", ofChanges, (*app).diffCommand}, {"apply", ofChanges, (*app).applyCommand}, {"discard", ofChanges, (*app).discardCommand},
		{"undo", ofChanges, (*app).undoCommand}, {"checkpoint", ofChanges, (*app).checkpointCommand},
		{"checkpoints", ofChanges, (*app).checkpointsCommand}, {"restore", ofChanges, (*app).restoreCommand}, {"fork", ofChanges, (*app).forkCommand}, {"compare", ofChanges, (*app).compareCommand},
		{"approvals", ofRules, (*app).approvalsCommand}, {"policy", ofRules, (*app).policyCommand}, {"mcp", ofRules, (*app).mcpCommand}, {"secret", ofRules, (*app).secretCommand},
		{"audit", ofRules, (*app).auditCommand}, {"config", ofRules, (*app).configCommand},
		{"init", ofMachine, (*app).initCommand}, {"image", ofMachine, (*app).imageCommand}, {"devcontainer", ofMachine, (*app).devcontainerCommand}, {"doctor", ofMachine, (*app).doctorCommand}, {"guardian", ofMachine, (*app).guardianCommand},
		{"window", ofRules, (*app).windowCommand},
		{"setup", ofMachine, (*app).setupCommand}, {"prune", ofMachine, (*app).pruneCommand}, {"uninstall", ofMachine, (*app).uninstallCommand},
		{"serve", ofMachine, (*app).serveCommand},
		{"completion", ofMachine, (*app).completionCommand}, {"version", ofMachine, (*app).versionCommand},
	}
}

type noun struct {
	name, heading string
	make          func(*app) *cobra.Command
}

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
	root := group("cloister", "Run a coding agent in an enclosure", verbs...)
	root.Long = "Cloister runs a coding agent, or any command, where it sees the project and a\nread-only toolchain, and where the only way out is one that a policy allows."
	root.Example = "  cloister claude                       the agent claude in this project, to come back to\n" +
		"  cloister run -- CMD                   one command, gone afterwards\n" +
		"  cloister approvals watch              see what they ask for, and answer\n" +
		"  cloister policy explain example.com   what is allowed, and why"
	root.RunE = func(cmd *cobra.Command, _ []string) error { return a.here(cmd.Context()) }
	root.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.agents(), cobra.ShellCompDirectiveNoFileComp
	}
	root.Version = version()
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
	root.SetOut(a.out)
	root.SetErr(a.stderr)
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no notices, only errors")
	root.PersistentFlags().BoolVar(&a.debug, "debug", false, "tell more, on stderr")
	return root
}

// execute runs one command line.
func (a *app) execute(ctx context.Context, args []string) error {
	only := ""
	if len(args) > 0 {
		only = args[0]
	}
	root := newRoot(a, only)
	a.args = a.writtenOut(root, args)
	args = a.args
	root.SetArgs(args)
	// An unknown command is told before its flags are looked at, which belong
	// to nobody.
	if cmd, rest, err := root.Find(args); err == nil && cmd.HasSubCommands() && cmd.Annotations[takesNames] == "" && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		if !strings.HasPrefix(rest[0], cobra.ShellCompRequestCmd) && rest[0] != "help" {
			return unknownCommand(cmd, rest)
		}
	}
	return root.ExecuteContext(ctx)
}

// takesNames is the annotation of a command that has both: verbs under it, and names of
// its own as arguments.
const takesNames = "names"

// usageOf is cobra's own page but for its first lines: a noun has no use alone.
func usageOf(root *cobra.Command) string {
	page := root.UsageTemplate()
	page = strings.Replace(page, "{{if .Runnable}}\n  {{.UseLine}}{{end}}", "{{if or (not .HasAvailableSubCommands) .Annotations.names}}\n  {{.UseLine}}{{end}}", 1)
	page = strings.Replace(page, "{{.CommandPath}} [command]{{end}}", "{{.CommandPath}} COMMAND{{if not .HasParent}}\n  {{.CommandPath}} AGENT [ARG...]{{end}}{{end}}", 1)
	page = strings.Replace(page, "Available Commands:", "Commands:", 1)
	page = strings.Replace(page, "Global Flags:", "Flags of every command:", 1)
	return strings.Replace(page, "Use \"{{.CommandPath}} [command] --help\" for more information about a command.", "{{.CommandPath}} COMMAND --help explains one of them.", 1)
}

// group is a noun with verbs under it; alone it prints its help.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(verbs...)
	return c
}

// unknownCommand refuses a word that is no command of cmd.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if !cmd.HasParent() && cmd.ValidArgsFunction != nil {
		agents, _ := cmd.ValidArgsFunction(cmd, nil, "")
		names = append(names, agents...)
	}
	hint := fmt.Sprintf("%s --help lists them", cmd.CommandPath())
	if near := nearest.Word(args[0], names); near != "" {
		hint = fmt.Sprintf("did you mean %s %s?", cmd.CommandPath(), near)
	} else if _, err := exec.LookPath(args[0]); err == nil && !cmd.HasParent() {
		hint = fmt.Sprintf("to run the program: cloister run -- %s; to come back to it: cloister start --agent %s", shellword.Line(args...), args[0])
	}
	return wrongWords(hint, "unknown command %q for %s", args[0], cmd.CommandPath())
}

// flagError puts what pflag refused into the house's words, with the nearest
// flag that there is.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return wrongWords(fmt.Sprintf("%s --help explains the flags", cmd.CommandPath()), "%s: %v", words(cmd), flagReason(err))
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
	return wrongWords(hint, "unknown flag %s for %s", name, cmd.CommandPath())
}

// words are those of a command without the program's name, which opens every
// error.
func words(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
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

// counted refuses another number of arguments, by the names in the usage line.
func counted(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return wrongWords("usage: "+cmd.UseLine(), "%s: an argument is missing", words(cmd))
		case len(args) > most:
			return wrongWords("usage: "+cmd.UseLine(), "%s: unexpected argument %q", words(cmd), args[most])
		}
		return nil
	}
}

// worded refuses an empty word where a name belongs, which a script's unset variable leaves and which would mean
// the current folder's project, and flags that exclude each other.
func worded(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] == "" && cmd.ArgsLenAtDash() != 0 && cmd.Name() != "srt" && !cmd.Hidden {
		return wrongWords("usage: "+cmd.UseLine(), "%s: an empty word stands where a name belongs", words(cmd))
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
	return wrongWords("", "%s: %s exclude each other", words(cmd), strings.Join(typed, " and "))
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
				return wrongWords("", "help: %v", err)
			}
			if len(rest) > 0 {
				return unknownCommand(at, rest)
			}
			at.InitDefaultHelpFlag()
			at.InitDefaultVersionFlag()
			return at.Help()
		},
	}
}

// completeSessions offers the names of sessions.
func (a *app) completeSessions(all bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.sessionNames(cmd.Context(), all), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeMore offers the names of sessions that were not typed yet.
func (a *app) completeMore(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := slices.DeleteFunc(a.sessionNames(cmd.Context(), false), func(s string) bool {
		name, _, _ := strings.Cut(s, "\t")
		return slices.Contains(args, name)
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) sessionNames(ctx context.Context, all bool) []string {
	c, err := a.dial(ctx)
	if err != nil {
		return nil // nothing to offer; Tab is no place for errors
	}
	defer c.Close()
	sessions, err := c.Sessions(ctx, all)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(sessions))
	for _, s := range sessions {
		names = append(names, s.Name+"\t"+s.Project)
	}
	return names
}
