// Package approvals is the commands about what waits for a person, and about the answers that are remembered.
//
// The promise: all of a question is shown before it is answered, and an answer says what else it covers.
//
// It holds no question and no answer: the guardian does.
//
// Most readers want [Commands].
package approvals

import (
	"errors"
	"strings"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/policyset/export"

	"github.com/spf13/cobra"
)

// Commands are the commands of one invocation.
type Commands struct{ *cli.App }

// Command is approvals with its verbs.
func (a *Commands) Command() *cobra.Command {
	list := a.approvalsList()
	c := cli.Group("approvals", "See and answer what a cloister asks for",
		list, a.approvalsShow(), a.approvalsWatch(), a.approvalsAnswer("approve"), a.approvalsAnswer("deny"),
		a.approvalsUndo(), a.approvalsExport())
	c.RunE, c.Annotations = list.RunE, map[string]string{cli.ActsAlone: "yes"}
	c.Flags().AddFlagSet(list.Flags())
	return c
}

func (a *Commands) approvalsList() *cobra.Command {
	var asJSON, all, remembered bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List what waits for an answer",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			waiting, kept := []api.Approval{}, []api.Decision{}
			c, err := a.Dial(cmd.Context())
			switch {
			case errors.Is(err, client.ErrNotRunning):
				a.Notice("the guardian is not running: nothing waits")
			case err != nil:
				return err
			default:
				defer c.Close()
				if waiting, err = c.Approvals(cmd.Context(), all); err != nil {
					return err
				}
				if kept, err = c.Decisions(cmd.Context()); err != nil {
					return err
				}
			}
			switch {
			case asJSON && remembered:
				return a.JSON(kept)
			case asJSON:
				return a.JSON(waiting)
			case remembered:
				a.listDecisions(kept)
				if len(kept) == 0 {
					a.Notice("no answer is remembered")
				}
				return nil
			}
			a.listApprovals(waiting, time.Now())
			if len(waiting) == 0 && err == nil {
				a.Notice("nothing waits for an answer%s", cli.Unless(all, ", cloister approvals list -a shows what was answered"))
			}
			if all && len(kept) > 0 {
				a.listDecisions(kept)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVarP(&all, "all", "a", false, "also what ended, and the remembered answers")
	c.Flags().BoolVar(&remembered, "remembered", false, "only the remembered answers")
	return c
}

func (a *Commands) approvalsShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show all of one question, before it is answered",
		Args:  cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithGuardian(cmd.Context(), func(c *client.Client) error {
				i, err := c.Approval(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.JSON(i)
				}
				a.showApproval(i)
				return nil
			})
		},
		ValidArgsFunction: a.completeApprovals,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// showApproval writes everything that a person should look at.
func (a *Commands) showApproval(i api.Approval) {
	a.Line("%s  %s asks to %s", i.ID, i.Session, i.Title)
	a.Line("because %s", i.Reason)
	if i.Marks != "" {
		a.Line("beware: it holds %s", i.Marks)
	}
	for _, d := range i.Details {
		a.Line("  %s: %s", d.Label, d.Text)
	}
	a.Line("waiting: %d", i.Waiting)
	a.Line("scopes: %s", strings.Join(i.Scopes, ", "))
	for _, c := range i.Covers {
		a.Line("%s", coverLine(c))
	}
	if i.State != "pending" {
		a.Line("%s", stateOf(i))
	}
}

// coverLine says what an answer of one scope is for.
func coverLine(c api.ApprovalCover) string {
	line := c.Scope
	if c.Pattern != "" {
		line += " with --pattern " + c.Pattern
	}
	line += ": " + c.Text
	if c.Digest != "" {
		line += "; bound to " + c.Digest
	}
	return line
}

func (a *Commands) listApprovals(list []api.Approval, now time.Time) {
	rows, cut := [][]string{{"ID", "SESSION", "KIND", "WHAT", "STATE", "LEFT"}}, false
	for _, i := range list {
		left := ""
		if i.State == "pending" {
			left = cli.Age(i.ExpiresAt.Sub(now))
		}
		rows = append(rows, []string{i.ID, i.Session, i.Kind, cli.Clip(i.Title), stateOf(i), left})
		if cli.Clip(i.Title) != i.Title {
			cut = true
		}
	}
	a.Table(rows)
	if cut {
		a.Notice("what ends with … is longer: cloister approvals show ID has all of it")
	}
}

func (a *Commands) listDecisions(list []api.Decision) {
	rows := [][]string{{"ID", "ANSWER", "SCOPE", "KIND", "WHAT", "FOR", "WHEN", "BY"}}
	for _, d := range list {
		to := "every project"
		switch d.Scope {
		case "project":
			to = d.Project
		case "session":
			to = d.Session
		}
		rows = append(rows, []string{d.ID, d.Answer, d.Scope, d.Kind, cli.Clip(whatOf(d)), to,
			d.At.Local().Format(time.DateTime), d.By})
	}
	a.Table(rows)
}

// whatOf is what an answer is about, as it was shown to the person; the subject
// of a command is the digest of everything it would do.
func whatOf(d api.Decision) string {
	if d.Kind == "hostexec" && d.Shown != "" {
		return d.Shown
	}
	return d.Subject
}

func stateOf(i api.Approval) string {
	if i.Scope == "" {
		return i.State
	}
	return i.State + " (" + i.Scope + ")"
}

// answerWords are the flags of approve and deny.
type answerWords struct {
	scope, pattern string
	confirm        bool
}

func (a *Commands) approvalsAnswer(verb string) *cobra.Command {
	f := &answerWords{}
	c := &cobra.Command{
		Use:   verb + " ID",
		Short: map[string]string{"approve": "Allow what waits", "deny": "Deny what waits"}[verb],
		Args:  cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch f.scope {
			case "once", "session", "project", "global":
			default:
				return cli.Usage("one of: once, session, project, global", "approvals %s: --scope %q is not known", verb, f.scope)
			}
			return a.WithGuardian(cmd.Context(), func(c *client.Client) error {
				i, err := c.Answer(cmd.Context(), args[0], verb == "approve", api.ApprovalReply{
					Scope: f.scope, Pattern: f.pattern, Confirm: f.confirm, Via: "cli",
				})
				if err != nil {
					return err
				}
				what := i.Title
				if i.Pattern != "" {
					what += " and all of " + i.Pattern
				}
				a.Line("%s %s: %s (%s)", i.ID, i.State, what, i.Scope)
				for _, c := range i.Covers {
					if c.Scope == i.Scope && c.Scope != "once" && c.Pattern == i.Pattern {
						a.Line("for %s", c.Text)
					}
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeApprovals,
	}
	c.Flags().StringVar(&f.scope, "scope", "once", "how long the answer holds: once, session, project or global")
	c.Flags().StringVar(&f.pattern, "pattern", "", "answer for all of `*.NAME`, which must hold what was asked for")
	c.Flags().BoolVar(&f.confirm, "confirm", false, "yes, in spite of the warning")
	if err := c.RegisterFlagCompletionFunc("scope",
		cobra.FixedCompletions([]string{"once", "session", "project", "global"},
			cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is three lines above
	}
	return c
}

func (a *Commands) completeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var ids []string
	if len(args) == 0 {
		// An error leaves nothing to offer; Tab is no place for it.
		_ = a.WithGuardian(cmd.Context(), func(c *client.Client) error {
			list, err := c.Approvals(cmd.Context(), false)
			for _, i := range list {
				ids = append(ids, i.ID+"\t"+i.Session+": "+cli.Clip(i.Title))
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func (a *Commands) approvalsUndo() *cobra.Command {
	return &cobra.Command{
		Use:   "undo ID",
		Short: "Take a remembered answer back",
		Args:  cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithGuardian(cmd.Context(), func(c *client.Client) error {
				d, err := c.Undo(cmd.Context(), args[0], "cli")
				if err != nil {
					return err
				}
				a.Line("%s undone: %s %s (%s)", d.ID, d.Answer, whatOf(d), d.Scope)
				return nil
			})
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var ids []string
			if len(args) == 0 {
				_ = a.WithGuardian(cmd.Context(), func(c *client.Client) error {
					list, err := c.Decisions(cmd.Context())
					for _, d := range list {
						ids = append(ids, d.ID+"\t"+d.Answer+" "+cli.Clip(whatOf(d)))
					}
					return err
				})
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func (a *Commands) approvalsExport() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print the remembered answers as rules for config.yaml",
		Args:  cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithGuardian(cmd.Context(), func(c *client.Client) error {
				list, err := c.Decisions(cmd.Context())
				if err != nil {
					return err
				}
				lines, others := export.Rules(list)
				for _, line := range lines {
					a.Line("%s", line)
				}
				if others > 0 {
					a.Notice("%d remembered answers are about no destination, so config.yaml has no rule for them: "+
						"cloister approvals list --remembered", others)
				}
				return nil
			})
		},
	}
}
