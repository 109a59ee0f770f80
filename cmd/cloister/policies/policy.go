// Package policies is the commands about the policy: what it is, whether it would load, what it would say, and what
// it lacks.
//
// The promise: what is printed without a guardian is what the next one would say, and it says so.
//
// It judges and suggests nothing itself: policyset and the rooms of policy do.
//
// Most readers want [Commands].
package policies

import (
	"context"
	"errors"
	"io"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"

	"github.com/spf13/cobra"
)

// Commands are the commands of one invocation.
type Commands struct {
	*cli.App
	Servers cobra.CompletionFunc // the names of MCP servers and of their tools
}

// Command is policy with its verbs.
func (a *Commands) Command() *cobra.Command {
	return cli.Group("policy", "Show, check, explain, test and suggest what is allowed",
		a.policyShow(), a.policyCheck(), a.policyExplain(), a.policyTest(), a.policySuggest())
}

// asked runs f with the guardian, or otherwise without one. A session's own
// policy lives only in a guardian.
func (a *Commands) asked(ctx context.Context, session string, f func(*client.Client) error,
	otherwise func() error) error {
	c, err := a.Dial(ctx)
	if errors.Is(err, client.ErrNotRunning) && session == "" {
		return otherwise()
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f(c); err != nil {
		return a.SessionError(ctx, c, session, err)
	}
	return nil
}

func (a *Commands) policyShow() *cobra.Command {
	var session string
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the policy in force, as Cedar",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.asked(cmd.Context(), session, func(c *client.Client) error {
				p, err := c.Policy(cmd.Context(), session)
				if err != nil {
					return err
				}
				return a.showPolicy(p)
			}, func() error {
				l, err := a.OnDisk()
				if err != nil {
					return err
				}
				s := l.Snapshot()
				a.Notice("the guardian is not running: this is what the next one would load")
				return a.showPolicy(api.Policy{Digest: s.Digest(), Mode: s.Mode().String(), Cedar: s.Cedar(), Notices: l.Notices()})
			})
		},
	}
	a.sessionFlag(c, &session, "show that session's own")
	return c
}

func (a *Commands) showPolicy(p api.Policy) error {
	a.Notices(p.Notices)
	a.Line("// mode %s, digest %s", p.Mode, p.Digest)
	_, err := io.WriteString(a.Out, p.Cedar)
	return err
}

func (a *Commands) sessionFlag(c *cobra.Command, into *string, what string) {
	c.Flags().StringVar(into, "session", "", "`NAME`: "+what)
	// An error means that the flag does not exist; the line above made it.
	_ = c.RegisterFlagCompletionFunc("session",
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.SessionNames(cmd.Context(), false), cobra.ShellCompDirectiveNoFileComp
		})
}

func (a *Commands) policyCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [FILE.cedar...]",
		Short: "Report whether the files on disk would load, what is wrong with them, and what keeps each statement",
		Args:  cli.Args(0, 1<<10),
		RunE: func(cmd *cobra.Command, files []string) error {
			x, err := a.checkFiles(files)
			if err != nil && (!asJSON || len(x.Problems) == 0) {
				return err
			}
			if c, err := a.Dial(cmd.Context()); err == nil { // whether a guardian runs does not change the answer
				defer c.Close()
				if now, err := c.PolicyDigest(cmd.Context()); err == nil {
					x.InForce = now.Digest == x.Digest
					if x.OK && !x.InForce && len(files) == 0 {
						a.Notice("hint: in force is still %s; put this one in force: cloister guardian reload", now.Digest)
					}
				}
			}
			if asJSON {
				if err := a.JSON(x); err != nil {
					return err
				}
				if !x.OK {
					return &cli.StatusError{Status: cli.StatusFailed}
				}
				return nil
			}
			a.Notices(x.Notices)
			a.tellStatements(x.Statements)
			a.Line("policy %s is good", x.Digest)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}
