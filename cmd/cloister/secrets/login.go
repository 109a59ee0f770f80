package secrets

import (
	"bufio"
	"context"
	"slices"
	"strings"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *Commands) secretLogin() *cobra.Command {
	return &cobra.Command{
		Use:   "login SERVICE",
		Short: "Log in to a service: the guardian keeps the tokens and renews them",
		Long: "Log in to a service (github, claude, codex) with a browser, on this host or another. The guardian keeps\n" +
			"what the service gives and renews it; cloisters get placeholders, where\n" +
			"logins: in config.yaml or in a project's own file names the service.",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return cli.Usage("there are "+strings.Join(config.LoginNames(), ", "), "secret login: which service?")
			case !slices.Contains(config.LoginNames(), args[0]):
				hint := "there are " + strings.Join(config.LoginNames(), ", ")
				if near := nearest.Word(args[0], config.LoginNames()); near != "" {
					hint = "did you mean " + near + "?"
				}
				return cli.Usage(hint, "secret login: %q is no service that is known", args[0])
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return config.LoginNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.Login(cmd.Context(), args[0]) },
	}
}

func (a *Commands) Login(ctx context.Context, service string) error {
	c, err := a.Ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	begun, err := c.Login(ctx, service)
	if err != nil {
		return err
	}
	if begun.Code != "" {
		a.Notice("! First copy your one-time code: %s", begun.Code)
		a.Notice("- Then open %s in a browser, and type it there", begun.URL)
	} else {
		a.Notice("- Open this address in a browser:")
		a.Notice("%s", begun.URL)
		if term.IsTerminal(int(a.Stdin.Fd())) {
			a.Notice("- If it ends at an address that does not open, paste that here")
		}
		// It reads until the process ends: a read of a terminal cannot be called off.
		go a.pasted(ctx, c, service, begun.ID)
	}
	s, err := c.FinishLogin(ctx, service, api.LoginFinish{ID: begun.ID})
	if err != nil {
		return err
	}
	a.Notice("logged in to %s; the vault has it as %s", begun.Title, s.Name)
	l, err := a.OnDisk()
	if err == nil && !slices.Contains(l.Config().Logins, service) {
		a.Notice("hint: cloisters get it as a placeholder with logins: [%s] in config.yaml, or in a project's own file",
			service)
	}
	return err
}

// pasted gives the guardian what the person pastes.
func (a *Commands) pasted(ctx context.Context, c *client.Client, service, id string) {
	lines := bufio.NewScanner(a.Stdin)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			if _, err := c.FinishLogin(ctx, service, api.LoginFinish{ID: id, Answer: text}); err != nil {
				a.Complain(err)
			}
		}
	}
}
