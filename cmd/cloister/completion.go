package main

import (
	"strings"

	"cloister/cmd/cloister/cli"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
)

// bashAlone takes the place of what the script calls of the bash-completion
// package, where that is not installed.
const bashAlone = `
__cloister_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    # Bash by itself cuts words at = and : too.
    local i last=-1
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((last > 0)) && [[ ${COMP_WORDS[i]} == [=:]* || ${words[last]} == *[=:] ]]; then
            words[last]+=${COMP_WORDS[i]}
        else
            words[++last]=${COMP_WORDS[i]}
        fi
    done
    cword=$last cur=${words[last]} prev=
    if ((last > 0)); then
        prev=${words[last - 1]}
    fi
}
`

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that makes Tab complete",
		Long: `Print a script that makes Tab complete commands, flags and names.

  bash:  source <(cloister completion bash)
  zsh:   cloister completion zsh > "${fpath[1]}/_cloister"
  fish:  cloister completion fish > ~/.config/fish/completions/cloister.fish`,
		Args:      cli.Args(1, 1),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(a.Out, true); err != nil {
					return err
				}
				_, err := a.Out.WriteString(bashAlone)
				return err
			case "zsh":
				return root.GenZshCompletion(a.Out)
			case "fish":
				return root.GenFishCompletion(a.Out, true)
			}
			hint := "write one of " + strings.Join(shells, ", ")
			if near := nearest.Word(args[0], shells); near != "" {
				hint = "did you mean " + near + "?"
			}
			return cli.Usage(hint, "completion: unknown shell %q", args[0])
		},
	}
}
