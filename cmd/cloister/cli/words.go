package cli

import (
	"fmt"
	"os/exec"
	"strings"

	"cloister/internal/nearest"
	"cloister/internal/shellword"

	"github.com/spf13/cobra"
)

// TakesNames is the annotation of a command that has both: verbs under it, and names of
// its own as arguments.
const TakesNames = "names"

// ActsAlone is the annotation of a command that has verbs under it and does something without one.
const ActsAlone = "alone"

// Group is a noun with verbs under it; alone it prints its help.
func Group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short,
		Args: UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(verbs...)
	return c
}

// UnknownCommand refuses a word that is no command of cmd.
func UnknownCommand(cmd *cobra.Command, args []string) error {
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
		hint = fmt.Sprintf("to run the program: cloister run -- %s; to come back to it: cloister start --agent %s",
			shellword.Line(args...), args[0])
	}
	return Usage(hint, "unknown command %q for %s", args[0], cmd.CommandPath())
}

// Words are those of a command without the program's name, which opens every
// error.
func Words(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// Args refuses another number of arguments, by the names in the usage line.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return Usage("usage: "+cmd.UseLine(), "%s: an argument is missing", Words(cmd))
		case len(args) > most:
			return Usage("usage: "+cmd.UseLine(), "%s: unexpected argument %q", Words(cmd), args[most])
		}
		return nil
	}
}
