package policies

import (
	"context"
	"strings"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/secrets"
	"cloister/internal/termsafe"
	"cloister/policyset/explain"

	"github.com/spf13/cobra"
)

// explain asks the guardian, or what is on disk, and tells the answer.
func (a *Commands) explain(ctx context.Context, req api.ExplainRequest, asJSON bool) (err error) {
	if req.Project, req.Projects, err = a.HereWords(); err != nil {
		return err
	}
	var x api.Explanation
	err = a.asked(ctx, req.Session, func(c *client.Client) error {
		x, err = c.Explain(ctx, req)
		return err
	}, func() error {
		l, err := a.OnDisk()
		if err != nil {
			return err
		}
		a.Notice("the guardian is not running: this is what the next one would say")
		x, err = explain.OnDisk(l, req)
		return err
	})
	if err != nil {
		return err
	}
	a.Notices(x.Notices)
	if asJSON {
		return a.JSON(x)
	}
	a.tellExplanation(x)
	return nil
}

func (a *Commands) policyExplain() *cobra.Command {
	f := &explain.Words{}
	var session string
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain HOST[:PORT] | [METHOD] URL | mcp SERVER [NAME] | secret NAME URL | file [read|write|execute] PATH",
		Short: "Tell what would become of a connection, request, MCP call, file or use of a secret, and which rule says so",
		Example: "  cloister policy explain DELETE https://api.github.com/user\n" +
			"  cloister policy explain mcp github create_issue --arguments '{\"repo\": \"acme/tool\"}'\n" +
			"  cloister policy explain secret GITHUB_TOKEN https://api.github.com/user\n" +
			"  cloister policy explain file write /home/you/src/project/.env",
		Args: cli.Args(1, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := f.Question(args)
			if err != nil {
				return err
			}
			req.Session = session
			return a.explain(cmd.Context(), req, asJSON)
		},
		ValidArgsFunction: a.completesExplain,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().StringVarP(&f.Method, "method", "X", "", "`METHOD` of the request, GET for a URL; of ssh fetch or push")
	c.Flags().StringArrayVarP(&f.Headers, "header", "H", nil, "`'NAME: VALUE'` that the request has")
	c.Flags().StringVar(&f.Arguments, "arguments", "", "`JSON` object that an MCP tool is called with")
	c.Flags().StringVar(&f.Feature, "feature", "",
		"what NAME of an MCP server is: tool unless said, prompt or resource; or sampling, elicitation or roots, which "+
			"have none")
	a.sessionFlag(c, &session, "judge by that session's policy")
	return c
}

func (a *Commands) completesExplain(cmd *cobra.Command, args []string, word string) ([]string,
	cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"file", "mcp", "secret"}, cobra.ShellCompDirectiveNoFileComp
	case args[0] == "mcp":
		return a.Servers(cmd, args[1:], word)
	case args[0] == "secret" && len(args) == 1:
		return (&secrets.Commands{App: a.App}).Names(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (a *Commands) tellExplanation(x api.Explanation) {
	colour := map[string]int{"allow": cli.Green, "ask": cli.Yellow, "deny": cli.Red}
	a.Out.WriteString(a.Paint(a.Printable(a.Stdout, x.Effect), colour[x.Effect]))
	a.Line(" %s", subjectOf(x))
	a.Line("  %s", x.Reason)
	if x.Diagnostic != "" {
		a.Line("  %s", x.Diagnostic)
	}
	if x.WouldDeny {
		a.Line("  in mode %s it passes; enforce would refuse it", x.Mode)
	}
	for _, c := range x.Rewrites {
		verb := "sets"
		if c.Remove {
			verb = "removes"
		}
		a.Line("  + %s %s  %s  (%s)", verb, c.Header, c.Rule, c.Place)
	}
	for _, m := range x.Matches {
		mark, note := " ", ""
		if m.Decides {
			mark = ">"
		}
		if m.Note != "" {
			note = "  " + m.Note
		}
		a.Line("  %s %-5s  %s  (%s)%s", mark, m.Effect, m.Rule, m.Place, note)
	}
	if x.Inspect && x.Method == "" && x.Effect == "allow" {
		a.Line("  each request on it is judged: cloister policy explain https://%s/PATH --method METHOD",
			strings.TrimSuffix(x.Authority, ":443"))
	}
	for _, h := range x.Hints {
		a.Line("  to allow it: %s", h)
	}
}

// subjectOf is what is explained, as a person writes it.
func subjectOf(x api.Explanation) string {
	if x.Login != "" {
		return termsafe.Text(x.Login) + " at " + x.Authority
	}
	if x.Subject != "" {
		return termsafe.Text(x.Subject)
	}
	if x.Method == "" {
		return x.Authority
	}
	host, scheme := x.Authority, "https://"
	if plain, ok := strings.CutSuffix(host, ":80"); ok {
		host, scheme = plain, "http://"
	}
	return x.Method + " " + scheme + strings.TrimSuffix(host, ":443") + x.Path
}
