package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/internal/shellword"
	"cloister/internal/termsafe"
	"cloister/mcp"
	"cloister/policyset"
	"cloister/policyset/servers"

	"github.com/spf13/cobra"
)

func (a *app) mcpCommand() *cobra.Command {
	return cli.Group("mcp", "The MCP servers whose calls are judged, and a cloister as one", a.mcpList(), a.mcpInspect(),
		a.mcpPin(), a.mcpServe())
}

// mcpAsked runs f with the guardian, or otherwise with what is on disk; in a
// project with what its files declare too.
func (a *app) mcpAsked(ctx context.Context, f func(*client.Client, api.MCPProject) error,
	otherwise func(*policyset.Set, *mcp.Pins, api.MCPProject) error) error {
	here, err := a.mcpHere()
	if err != nil {
		return err
	}
	c, err := a.Dial(ctx)
	if err == nil {
		defer c.Close()
		return f(c, here)
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return err
	}
	l, err := a.OnDisk()
	if err != nil {
		return err
	}
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	return otherwise(l, mcp.OpenPins(servers.PinsFile(d), time.Now), here)
}

// mcpHere is the project of the current folder with the files of it that apply.
func (a *app) mcpHere() (here api.MCPProject, err error) {
	here.Project, here.Projects, err = a.HereWords()
	return here, err
}

func (a *app) mcpList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the declared MCP servers", Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []api.MCPServer
			err := a.mcpAsked(cmd.Context(), func(c *client.Client, of api.MCPProject) (err error) {
				list, err = c.MCP(cmd.Context(), of)
				return err
			}, func(l *policyset.Set, p *mcp.Pins, of api.MCPProject) (err error) {
				list, err = servers.List(l, p, of)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(list)
			}
			rows := [][]string{{"NAME", "INSIDE AT", "ALLOW", "ASK", "DENY", "PINNED", "CHANGED"}}
			for _, s := range list {
				rows = append(rows, []string{
					s.Name, s.At, strings.Join(s.AllowTools, ","), strings.Join(s.AskTools, ","), strings.Join(s.DenyTools,
						","), fmt.Sprint(s.Pinned), fmt.Sprint(s.Changed),
				})
			}
			a.Table(rows)
			if len(list) == 0 {
				a.Notice("no MCP server is declared; in config.yaml: mcp: {servers: [{url: https://…/mcp, allow_tools: [NAME]}]}")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) mcpInspect() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "inspect SERVER", Args: cli.Args(1, 1),
		Short:             "Show what a server says of its tools, what may become of a call, and what has changed",
		ValidArgsFunction: a.mcpNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.mcpServer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.JSON(s)
			}
			a.tellServer(s)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) mcpServer(ctx context.Context, name string) (s api.MCPServer, err error) {
	err = a.mcpAsked(ctx, func(c *client.Client, of api.MCPProject) (err error) {
		s, err = c.MCPServer(ctx, name, of)
		return err
	}, func(l *policyset.Set, p *mcp.Pins, of api.MCPProject) (err error) {
		s, err = servers.Find(l, p, name, of)
		return err
	})
	return s, err
}

func (a *app) tellServer(s api.MCPServer) {
	a.Line("%s at %s", s.Name, s.At)
	if len(s.Command) > 0 {
		a.Line("  runs on the host: %s", shellword.Line(s.Command...))
	}
	a.Line("  declared in %s; sampling %s, elicitation %s, roots %s", s.Place, s.Sampling, s.Elicitation, s.Roots)
	if len(s.Prompts)+len(s.Resources) > 0 {
		a.Line("  prompts %s; resources %s", strings.Join(s.Prompts, ", "), strings.Join(s.Resources, ", "))
	}
	if len(s.Tools) == 0 {
		a.Line("  no tool that may be used was listed yet")
	}
	colour := map[string]int{"allow": cli.Green, "ask": cli.Yellow, "deny": cli.Red}
	for _, t := range s.Tools {
		a.Out.WriteString("  " + a.Paint(fmt.Sprintf("%-5s", t.Verdict), colour[t.Verdict]))
		a.Line("  %s  %s", t.Name, termsafe.Text(t.Description))
		a.Line("         pinned %s, %s; %s", t.PinnedAt.Local().Format(time.DateTime), t.PinnedBy, t.Digest)
		if c := t.Changed; c != nil {
			a.Line("         CHANGED %s: it is not shown, and a call asks", c.SeenAt.Local().Format(time.DateTime))
			for _, m := range c.Members {
				a.Line("         %s before: %s", m.Name, termsafe.Text(m.Before))
				a.Line("         %s now:    %s", m.Name, termsafe.Text(m.Now))
			}
			a.Line("         to take it: cloister mcp pin %s %s", s.Name, t.Name)
		}
	}
}

func (a *app) mcpPin() *cobra.Command {
	var forget bool
	c := &cobra.Command{
		Use:   "pin SERVER [TOOL...]",
		Short: "Take what a server says of its tools now (of every changed one, unless named), or --forget them",
		Args:  cli.Args(1, 1<<10), ValidArgsFunction: a.mcpNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.mcpServer(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			// What is taken is what this command saw, and not what came since.
			here, err := a.mcpHere()
			if err != nil {
				return err
			}
			req := api.MCPPin{Tools: args[1:], Forget: forget, Digests: map[string]string{}, MCPProject: here}
			for _, t := range s.Tools {
				if t.Changed != nil {
					req.Digests[t.Name] = t.Changed.Digest
				}
			}
			c, err := a.Ensure(cmd.Context()) // who keeps the record
			if err != nil {
				return err
			}
			defer c.Close()
			done, err := c.MCPPin(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			for _, t := range done.Tools {
				a.Line("%s", t)
			}
			if len(done.Tools) == 0 {
				a.Notice("nothing to do: no tool of %s has changed", args[0])
			}
			return nil
		},
	}
	c.Flags().BoolVar(&forget, "forget", false, "forget what was pinned: what is listed next is pinned anew")
	return c
}

// mcpNames completes the name of a server.
func (a *app) mcpNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) > 0 {
		s, err := a.mcpServer(cmd.Context(), args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		for _, t := range s.Tools {
			out = append(out, t.Name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	err := a.mcpAsked(cmd.Context(), func(c *client.Client, of api.MCPProject) error {
		list, err := c.MCP(cmd.Context(), of)
		for _, s := range list {
			out = append(out, s.Name)
		}
		return err
	}, func(l *policyset.Set, p *mcp.Pins, of api.MCPProject) error {
		list, err := servers.List(l, p, of)
		for _, s := range list {
			out = append(out, s.Name)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
