package main

import (
	"context"
	"encoding/json"
	"strings"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/policyset/explain"
	"cloister/secret/vault"

	"github.com/spf13/cobra"
)

// explain asks the guardian, or what is on disk, and tells the answer.
func (a *app) explain(ctx context.Context, req api.ExplainRequest, asJSON bool) (err error) {
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

// explainWords are the flags of policy explain.
type explainWords struct {
	session, method, arguments, feature string
	headers                             []string
}

func (a *app) policyExplain() *cobra.Command {
	f := &explainWords{}
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
			req, err := f.question(args)
			if err != nil {
				return err
			}
			req.Session = f.session
			return a.explain(cmd.Context(), req, asJSON)
		},
		ValidArgsFunction: a.completesExplain,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().StringVarP(&f.method, "method", "X", "", "`METHOD` of the request, GET for a URL; of ssh fetch or push")
	c.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "`'NAME: VALUE'` that the request has")
	c.Flags().StringVar(&f.arguments, "arguments", "", "`JSON` object that an MCP tool is called with")
	c.Flags().StringVar(&f.feature, "feature", "",
		"what NAME of an MCP server is: tool unless said, prompt or resource; or sampling, elicitation or roots, which "+
			"have none")
	a.sessionFlag(c, &f.session, "judge by that session's policy")
	return c
}

// question is what is asked in words and flags.
func (f *explainWords) question(args []string) (api.ExplainRequest, error) {
	if len(args) == 2 && f.method == "" {
		// As in a request line, and the other way round.
		for i, word := range args {
			if methodWord(word) {
				f.method, args = word, args[1-i:2-i]
				break
			}
		}
	}
	call := args[0] == "mcp" && len(args) > 1
	if !call && f.arguments+f.feature != "" {
		return api.ExplainRequest{}, cli.Usage("cloister policy explain mcp SERVER NAME --arguments JSON",
			"policy explain: --arguments and --feature are of a call to an MCP server")
	}
	switch {
	case call && f.method == "" && len(f.headers) == 0:
		return f.call(args[1:])
	case call:
		return api.ExplainRequest{}, cli.Usage("leave out -X and -H",
			"policy explain: a call to an MCP server has no method and no headers")
	case args[0] == "secret" && len(args) == 3:
		if err := vault.CheckName(args[1]); err != nil {
			return api.ExplainRequest{}, cli.Usage("such as GITHUB_TOKEN", "policy explain: %v", err)
		}
		req, err := explained(args[2], f.method, f.headers)
		req.Secret = args[1]
		return req, err
	case args[0] == "file" && len(args) > 1:
		file := &api.ExplainFile{Path: args[len(args)-1]}
		if len(args) == 3 {
			file.Use = args[1]
		}
		return api.ExplainRequest{File: file}, nil
	case len(args) > 1:
		return api.ExplainRequest{}, cli.Usage("one of HOST[:PORT], [METHOD] URL, mcp SERVER [NAME], secret NAME URL, file PATH",
			"policy explain: %q explains nothing", args[1])
	}
	req, err := explained(args[0], f.method, f.headers)
	return req, err
}

// methodWord reports whether a word is a request's method, and no host.
func methodWord(word string) bool {
	return word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

func (f *explainWords) call(args []string) (api.ExplainRequest, error) {
	call := &api.ExplainCall{Server: args[0], Feature: f.feature}
	if len(args) > 1 {
		call.Name = args[1]
	}
	if f.arguments != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(f.arguments), &object); err != nil {
			return api.ExplainRequest{}, cli.Usage(`such as '{"path": "README.md"}'`,
				"policy explain: --arguments is no JSON object: %v", err)
		}
		call.Arguments = json.RawMessage(f.arguments)
	}
	return api.ExplainRequest{MCP: call}, nil
}

func (a *app) completesExplain(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"file", "mcp", "secret"}, cobra.ShellCompDirectiveNoFileComp
	case args[0] == "mcp":
		return a.mcpNames(cmd, args[1:], word)
	case args[0] == "secret" && len(args) == 1:
		return a.secrets().Names(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
