package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/audit"
	"cloister/guardian"
	"cloister/internal/authority"
	"cloister/policy"
	"cloister/policy/suggest"

	"github.com/spf13/cobra"
)

// suggestion is the answer of policy suggest.
type suggestion struct {
	Rules []suggestedRule `json:"rules"`
	// Left is what passed and no further allow rule would allow.
	Left []leftOver `json:"left"`
}

type suggestedRule struct {
	Domain  string   `json:"domain,omitempty"`
	CIDR    string   `json:"cidr,omitempty"`
	Ports   []uint16 `json:"ports,omitempty"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Count   int      `json:"count"`
}

type leftOver struct {
	Destination string `json:"destination"`
	Method      string `json:"method,omitempty"`
	Path        string `json:"path,omitempty"`
	Effect      string `json:"effect"`
	Reason      string `json:"reason"`
	Count       int    `json:"count"`
}

func (a *app) policySuggest() *cobra.Command {
	var f audit.Filter
	var since time.Duration
	var whole, asJSON bool
	c := &cobra.Command{
		Use:   "suggest",
		Short: "Write the rules that would allow what passed in record mode",
		Long: `Write the smallest list of rules that would allow, in mode enforce, what passed
in mode record or shadow and the policy on disk does not allow: a config.yaml to
take over, after you have read it. Nothing is changed.`,
		Example: "  cloister run --mode record --name trial -- make test\n" +
			"  cloister policy suggest --session trial",
		Args: counted(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if since < 0 {
				return wrongWords("", "policy suggest: --since cannot be negative")
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			l, err := a.onDisk()
			if err != nil {
				return err
			}
			seen, err := a.passed(f)
			if err != nil {
				return err
			}
			in := l.Input()
			if whole {
				in.Rules = slices.DeleteFunc(in.Rules, func(r policy.Rule) bool { return r.Effect != policy.Deny })
			}
			rules, left, err := suggest.Rules(in, seen)
			if err != nil {
				return err
			}
			x := told(rules, left)
			if asJSON {
				return a.json(x)
			}
			a.tellSuggestion(x, whole, len(seen))
			return nil
		},
	}
	c.Flags().StringVar(&f.Session, "session", "", "only what `NAME` did")
	c.Flags().DurationVar(&since, "since", 0, "only what was done later than this ago, such as 10m")
	c.Flags().BoolVar(&whole, "whole", false, "a policy that allows nothing else: without presets and the allow rules that there are")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	// An error means that the flag does not exist; the lines above made it.
	_ = c.RegisterFlagCompletionFunc("session", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.sessionNames(cmd.Context(), true), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// passed is what the record says that was let through, each thing once.
func (a *app) passed(f audit.Filter) ([]suggest.Seen, error) {
	d, err := a.dirs()
	if err != nil {
		return nil, err
	}
	f.Verdict = policy.Allow.String()
	at := map[string]int{}
	var out []suggest.Seen
	err = a.eachEvent(guardian.AuditDir(d), f, func(e audit.Event) {
		if e.Kind != audit.NetConnect && e.Kind != audit.HTTPRequest || e.Action == "close" || e.Action == "response" {
			return
		}
		to, err := authority.ParseHostPort(bracketed(e.Host)+":"+strconv.Itoa(int(e.Port)), e.Port)
		if err != nil {
			return // shortened by the record, and never that of a destination that was reached
		}
		s := suggest.Seen{To: to, Count: 1}
		if e.Kind == audit.HTTPRequest {
			s.Method = e.Method
			s.Path, _, _ = strings.Cut(e.Path, "?")
		}
		key := s.Method + " " + to.String() + s.Path
		if i, ok := at[key]; ok {
			out[i].Count++
			return
		}
		at[key] = len(out)
		out = append(out, s)
	})
	return out, err
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func told(rules []suggest.Rule, left []suggest.Left) suggestion {
	x := suggestion{Rules: []suggestedRule{}, Left: []leftOver{}}
	for _, r := range rules {
		x.Rules = append(x.Rules, suggestedRule{Domain: r.Domain, CIDR: r.CIDR, Ports: r.Ports, Methods: r.Methods, Paths: r.Paths, Count: r.Count})
	}
	for _, l := range left {
		x.Left = append(x.Left, leftOver{Destination: l.To.String(), Method: l.Method, Path: l.Path, Effect: l.Effect.String(), Reason: l.Reason, Count: l.Count})
	}
	return x
}

func (a *app) tellSuggestion(x suggestion, whole bool, seen int) {
	for _, l := range x.Left {
		a.notice("no rule is suggested for %s: %s", strings.TrimSpace(l.Method+" "+l.Destination+l.Path), l.Reason)
	}
	switch {
	case seen == 0:
		a.notice("nothing passed that is on record; cloister run --mode record -- CMD lets pass, and records")
		return
	case len(x.Rules) == 0:
		a.notice("nothing to add: the policy on disk allows what passed")
		return
	}
	a.line("version: 1")
	a.line("proxy:")
	if whole {
		a.line("  presets: []")
	}
	a.line("  allow:")
	for _, r := range x.Rules {
		a.line("    - %s  # %s", r.yaml(), count(r.Count, "time"))
	}
}

// yaml is the rule as an element of its list.
func (r suggestedRule) yaml() string {
	parts := []string{"domain: " + yamlWord(r.Domain)}
	if r.CIDR != "" {
		parts = []string{"cidr: " + yamlWord(r.CIDR)}
	}
	if len(r.Ports) > 0 {
		parts = append(parts, fmt.Sprintf("ports: %s", strings.ReplaceAll(fmt.Sprint(r.Ports), " ", ", ")))
	}
	for _, list := range []struct {
		key   string
		words []string
	}{{"methods", r.Methods}, {"paths", r.Paths}} {
		if len(list.words) == 0 {
			continue
		}
		quoted := make([]string, len(list.words))
		for i, w := range list.words {
			quoted[i] = yamlWord(w)
		}
		parts = append(parts, list.key+": ["+strings.Join(quoted, ", ")+"]")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// yamlWord quotes what YAML could read as something else than text.
func yamlWord(s string) string {
	plain := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/") == "" && strings.ContainsAny(s[:1], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/")
	if plain && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}
