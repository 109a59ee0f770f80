package main

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"
	"cloister/internal/authority"
	"cloister/policy"
	"cloister/policy/fileverdict"
	"cloister/policy/suggest"
	"cloister/policyset"
	"cloister/policyset/learned"

	"github.com/spf13/cobra"
)

// suggestion is the answer of policy suggest.
type suggestion struct {
	suggest.Answer
	// Files are what was opened and executed and no statement permits.
	Files learned.Policy `json:"files"`
}

func (a *app) policySuggest() *cobra.Command {
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
			l, err := a.OnDisk()
			if err != nil {
				return err
			}
			var used learned.Used
			seen, err := a.passed(f, &used)
			if err != nil {
				return err
			}
			x, err := a.suggested(l, seen, whole)
			if err != nil {
				return err
			}
			here, _, err := a.hereWords()
			if err != nil {
				return err
			}
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
			a.tellSuggestion(x, whole, len(seen))
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

// passed is what the record says that was let through, each thing once for each
// project.
func (a *app) passed(f audit.Filter, used *learned.Used) (map[string][]suggest.Seen, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	f.Verdict = policy.Allow.String()
	at := map[string]int{}
	out := map[string][]suggest.Seen{}
	err = a.records().EachEvent(folders.Audit(d), f, func(e audit.Line) {
		used.Add(e)
		if e.Kind != audit.NetConnect && e.Kind != audit.HTTPRequest || e.Action == "close" || e.Action == "response" {
			return
		}
		to, err := authority.ParseHostPort(net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), e.Port)
		if err != nil {
			return // shortened by the record, and never that of a destination that was reached
		}
		s := suggest.Seen{To: to, Count: 1}
		if e.Kind == audit.HTTPRequest {
			s.Method = e.Method
			s.Path, _, _ = strings.Cut(e.Path, "?")
		}
		key := e.Project + "\x00" + s.Method + " " + to.String() + s.Path
		if i, ok := at[key]; ok {
			out[e.Project][i].Count++
			return
		}
		at[key] = len(out[e.Project])
		out[e.Project] = append(out[e.Project], s)
	})
	return out, err
}

// suggested holds what each project did against the policy that it has: against the
// common one where its own files are wrong, so that the others are answered.
func (a *app) suggested(l *policyset.Set, seen map[string][]suggest.Seen, whole bool) (suggestion, error) {
	var rules []suggest.Rule
	var left []suggest.Left
	for _, project := range slices.Sorted(maps.Keys(seen)) {
		in := l.Input()
		files, err := a.wordsAt(project)
		if err == nil {
			in, err = l.InputIn(project, files)
		}
		if err != nil {
			a.Notice("cloister: %v; what was done in %s is held against the common policy", err, project)
			in = l.Input()
		}
		if whole {
			in.Rules = slices.DeleteFunc(in.Rules, func(r policy.Rule) bool { return r.Effect != policy.Deny })
		}
		more, over, err := suggest.Rules(in, seen[project])
		if err != nil {
			return suggestion{}, err
		}
		rules, left = append(rules, more...), append(left, over...)
	}
	return suggestion{Answer: suggest.AnswerOf(suggest.Merge(rules), left)}, nil
}

// wordsAt are a project's files; none where it is no more.
func (a *app) wordsAt(project string) ([]api.ProjectFile, error) {
	p, err := a.FindProject(project)
	if project == "" || err != nil {
		return nil, nil // what it did stays in the record
	}
	_, files, err := a.OwnWords(p)
	return files, err
}

func (a *app) tellSuggestion(x suggestion, whole bool, seen int) {
	for _, l := range x.Left {
		a.Notice("no rule is suggested for %s: %s", strings.TrimSpace(l.Method+" "+l.Destination+l.Path), l.Reason)
	}
	switch {
	case seen == 0:
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
