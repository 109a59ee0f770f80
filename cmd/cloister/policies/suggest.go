package policies

import (
	"strings"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/records"
	"cloister/guardian/folders"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/policy/suggest"
	"cloister/policyset/learned"
	"cloister/policyset/passed"

	"github.com/spf13/cobra"
)

// suggestion is the answer of policy suggest.
type suggestion struct {
	suggest.Answer
	// Files are what was opened and executed and no statement permits.
	Files learned.Policy `json:"files"`
}

func (a *Commands) policySuggest() *cobra.Command {
	var f audit.Filter
	var since time.Duration
	var whole, files, asJSON bool
	c := &cobra.Command{
		Use:   "suggest",
		Short: "Write the rules that would allow what passed in record mode",
		Long: `Write the smallest list of rules that would allow, in mode enforce, what passed
in mode record or shadow and the policy on disk does not allow: a config.yaml to
take over, after you have read it. What each project did is held against what its
own files say too. With --files it is what was opened and executed in native in mode
record, as a file of Cedar for config's folder policy: with it nothing else is
opened and executed there. Nothing is changed.`,
		Example: "  cloister run --mode record --name trial -- make test\n" +
			"  cloister policy suggest --session trial",
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if since < 0 {
				return cli.Usage("", "policy suggest: --since cannot be negative")
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			d, err := a.Dirs()
			if err != nil {
				return err
			}
			l, err := a.OnDisk()
			if err != nil {
				return err
			}
			record := &records.Commands{App: a.App}
			if err := record.NoSession("policy suggest", folders.Audit(d), f.Session); err != nil {
				return err
			}
			var used learned.Used
			var seen passed.Seen
			f.Verdict = policy.Allow.String()
			err = record.EachEvent(folders.Audit(d), f, func(e audit.Line) {
				used.Add(e)
				seen.Add(e)
			})
			if err != nil {
				return err
			}
			answer, err := seen.Suggest(l, whole, a.wordsAt, func(project string, err error) {
				a.Notice("cloister: %v; what was done in %s is held against the common policy", err, project)
			})
			if err != nil {
				return err
			}
			here, _, err := a.HereWords()
			if err != nil {
				return err
			}
			x := suggestion{Answer: answer}
			x.Files = used.Policy(fileverdict.In(l.Snapshot().Statements(), here))
			switch {
			case asJSON:
				return a.JSON(x)
			case files:
				for _, n := range used.Notes(x.Files) {
					a.Notice("%s", n)
				}
				a.Out.WriteString(x.Files.Cedar())
				return nil
			}
			a.tellSuggestion(x, whole, seen.Empty())
			return nil
		},
	}
	c.Flags().StringVar(&f.Session, "session", "", "only what `NAME` did")
	c.Flags().DurationVar(&since, "since", 0, "only what was done later than this ago, such as 10m")
	c.Flags().BoolVar(&whole, "whole", false,
		"a policy that allows nothing else: without presets and the allow rules that there are")
	c.Flags().BoolVar(&files, "files", false, "what was opened and executed instead, as Cedar")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	// An error means that the flag does not exist; the lines above made it.
	_ = c.RegisterFlagCompletionFunc("session",
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.SessionNames(cmd.Context(), true), cobra.ShellCompDirectiveNoFileComp
		})
	return c
}

// wordsAt are a project's files; none where it is no more.
func (a *Commands) wordsAt(project string) ([]api.ProjectFile, error) {
	p, err := a.FindProject(project)
	if project == "" || err != nil {
		return nil, nil // what it did stays in the record
	}
	_, files, err := a.OwnWords(p)
	return files, err
}

func (a *Commands) tellSuggestion(x suggestion, whole, none bool) {
	for _, l := range x.Left {
		a.Notice("no rule is suggested for %s: %s", strings.TrimSpace(l.Method+" "+l.Destination+l.Path), l.Reason)
	}
	switch {
	case none:
		a.Notice("nothing passed that is on record; cloister run --mode record -- CMD lets pass, and records")
		return
	case len(x.Rules) == 0:
		a.Notice("nothing to add: the policy on disk allows what passed")
		return
	}
	a.Line("version: 1")
	a.Line("proxy:")
	if whole {
		a.Line("  presets: []")
	}
	a.Line("  allow:")
	for _, r := range x.Rules {
		a.Line("    - %s  # %s", suggest.YAML(policy.Rule{Domain: r.Domain, CIDR: r.CIDR, Ports: r.Ports, Methods: r.Methods,
			Paths: r.Paths}), cli.Count(r.Count, "time"))
	}
}
