package secrets

import (
	"context"
	"slices"
	"strings"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"

	"github.com/spf13/cobra"
)

func (a *Commands) secretList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the secrets, never their values",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := secretsAsked(cmd.Context(), a, func(c *client.Client) (api.Secrets, error) {
				return c.Secrets(cmd.Context())
			})
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(all.Secrets)
			}
			rows := [][]string{{"NAME", "SOURCE", "SET", "HOSTS"}}
			for _, s := range all.Secrets {
				rows = append(rows, []string{s.Name, sourceOf(s), cli.DateOf(s.SetAt), hostsOf(s)})
			}
			a.Table(rows)
			if len(all.Secrets) == 0 {
				a.Notice("no secret is kept; cloister secret set NAME keeps one")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// secretsAsked asks the guardian, and starts one where none runs: it alone opens
// the vault.
func secretsAsked[T any](ctx context.Context, a *Commands, ask func(*client.Client) (T, error)) (answer T, err error) {
	c, err := a.Ensure(ctx)
	if err != nil {
		return answer, err
	}
	defer c.Close()
	return ask(c)
}

// Names are those of the secrets that are kept, where a guardian runs.
func (a *Commands) Names(ctx context.Context) []string {
	c, err := a.Dial(ctx)
	if err != nil {
		return nil // completion starts nothing
	}
	defer c.Close()
	all, err := c.Secrets(ctx)
	if err != nil {
		return nil
	}
	names := make([]string, len(all.Secrets))
	for i, s := range all.Secrets {
		names[i] = s.Name
	}
	return names
}

// hostsOf are the hosts to which a secret may go.
func hostsOf(s api.Secret) string {
	var hosts []string
	for _, b := range s.Bindings {
		for _, h := range b.Hosts {
			if !slices.Contains(hosts, h) {
				hosts = append(hosts, h)
			}
		}
	}
	if len(hosts) == 0 {
		return "none: secrets in config.yaml binds it"
	}
	return cli.Clip(strings.Join(hosts, ", "))
}

func sourceOf(s api.Secret) string {
	if s.Source == api.SecretCommand {
		return kindOf(s) + "command: " + cli.Clip(strings.Join(s.Command, " "))
	}
	return kindOf(s) + s.Source
}

func kindOf(s api.Secret) string {
	if s.Kind == "" {
		return ""
	}
	return s.Kind + " key, "
}

func (a *Commands) secretShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show NAME",
		Short: "Show all about one secret but its value",
		Args:  cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := secretsAsked(cmd.Context(), a, func(c *client.Client) (api.Secret, error) {
				return c.Secret(cmd.Context(), args[0])
			})
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(s)
			}
			rows := [][]string{{"name", s.Name}, {"source", sourceOf(s)}}
			add := func(key, value string) {
				if value != "" {
					rows = append(rows, []string{key, value})
				}
			}
			add("refresh", s.Refresh)
			add("set", cli.DateOf(s.SetAt))
			add("problem", s.Problem)
			for _, b := range s.Bindings {
				add("goes to", bindingLine(b))
			}
			if len(s.Bindings) == 0 {
				add("goes to", "nowhere: no line of secrets in config.yaml binds it")
			}
			a.Table(rows)
			return nil
		},
		ValidArgsFunction: a.completesSecret,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// bindingLine is where a secret may go, on one line.
func bindingLine(b api.SecretBinding) string {
	words := []string{strings.Join(b.Hosts, ", ")}
	if len(b.Methods)+len(b.Paths) > 0 {
		words = append(words, strings.Join(append(slices.Clone(b.Methods), b.Paths...), " "))
	}
	words = append(words, "in the "+b.Place)
	if b.Use != "" && b.Use != "allow" {
		words = append(words, b.Use)
	}
	if len(b.Env) > 0 {
		words = append(words, "inside as "+strings.Join(b.Env, ", "))
	}
	line := strings.Join(words, "; ")
	if b.Where != "" {
		line += "  (" + b.Where + ")"
	}
	return line
}

func (a *Commands) completesSecret(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.Names(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
}

func (a *Commands) secretRemove() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Forget a secret",
		Args:    cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Ensure(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			return c.RemoveSecret(cmd.Context(), args[0])
		},
		ValidArgsFunction: a.completesSecret,
	}
}
