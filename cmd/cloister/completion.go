package main

import (
	"strings"

	"cloister/internal/nearest"

	"github.com/spf13/cobra"
)

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that makes Tab complete",
		Long: `Print a script that makes Tab complete commands, flags and names.

  bash:  source <(cloister completion bash)
  zsh:   cloister completion zsh > "${fpath[1]}/_cloister"
  fish:  cloister completion fish > ~/.config/fish/completions/cloister.fish`,
		Args:      counted(1, 1),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			}
			hint := "write one of " + strings.Join(shells, ", ")
			if near := nearest.Word(args[0], shells); near != "" {
				hint = "did you mean " + near + "?"
			}
			return wrongWords(hint, "completion: unknown shell %q", args[0])
		},
	}
}
