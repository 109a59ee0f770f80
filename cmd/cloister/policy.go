package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/internal/authority"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/policyset/explain"

	"github.com/spf13/cobra"
)

func (a *app) policyCommand() *cobra.Command {
	return cli.Group("policy", "Show, check, explain, test and suggest what is allowed",
		a.policyShow(), a.policyCheck(), a.policyExplain(), a.policyTest(), a.policySuggest())
}

// asked runs f with the guardian, or otherwise without one. A session's own
// policy lives only in a guardian.
func (a *app) asked(ctx context.Context, session string, f func(*client.Client) error, otherwise func() error) error {
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

func (a *app) policyShow() *cobra.Command {
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

func (a *app) showPolicy(p api.Policy) error {
	a.Notices(p.Notices)
	a.Line("// mode %s, digest %s", p.Mode, p.Digest)
	_, err := io.WriteString(a.Out, p.Cedar)
	return err
}

func (a *app) sessionFlag(c *cobra.Command, into *string, what string) {
	c.Flags().StringVar(into, "session", "", "`NAME`: "+what)
	// An error means that the flag does not exist; the line above made it.
	_ = c.RegisterFlagCompletionFunc("session",
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return a.SessionNames(cmd.Context(), false), cobra.ShellCompDirectiveNoFileComp
		})
}

func (a *app) policyCheck() *cobra.Command {
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

// explained reads what is to be explained: HOST[:PORT], which is a connection
// unless a method is named, or a URL.
func explained(text, method string, headers []string) (api.ExplainRequest, error) {
	req := api.ExplainRequest{Method: method, Path: "/", Headers: headers}
	host, implied := text, uint16(443)
	if scheme, rest, isURL := strings.Cut(text, "://"); isURL {
		switch strings.ToLower(scheme) {
		case "https":
		case "http":
			implied = 80
		case "ssh", "postgres", "postgresql":
			return explainedLogin(strings.ToLower(scheme), rest, method, headers)
		default:
			return req, cli.Usage("what is read is http, https, ssh and postgres", "policy explain: the scheme %q", scheme)
		}
		if req.Method == "" {
			req.Method = "GET"
		}
		rest, _, _ = strings.Cut(rest, "#")
		host = rest
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			host, req.Path = rest[:i], rest[i:]
		}
		req.Path, req.Query, _ = strings.Cut(req.Path, "?")
		if req.Path == "" {
			req.Path = "/"
		}
	}
	if req.Method != "" && !isToken(req.Method) {
		return req, cli.Usage("such as GET, HEAD or POST", "policy explain: %q is no method", req.Method)
	}
	for _, h := range headers {
		if name, _, ok := strings.Cut(h, ":"); !ok || name == "" {
			return req, cli.Usage("-H 'NAME: VALUE'", "policy explain: %q is no header", h)
		}
	}
	if len(headers) > 0 && req.Method == "" {
		return req, cli.Usage("name a URL, or --method", "policy explain: a connection has no headers")
	}
	to, err := authority.ParseHostPort(host, implied)
	if err != nil {
		return req, cli.Usage("write HOST, HOST:PORT or a URL, such as https://api.example.com/repos", "policy explain: %v",
			err)
	}
	req.Connect = to.String()
	return req, nil
}

// explainedLogin reads USER@HOST[:PORT]/PATH: of ssh a repository of git's, of postgres
// a database.
func explainedLogin(scheme, rest, method string, headers []string) (api.ExplainRequest, error) {
	var req api.ExplainRequest
	scheme = strings.TrimSuffix(scheme, "ql")
	user, rest, ok := strings.Cut(rest, "@")
	if !ok || user == "" {
		return req, cli.Usage("such as "+scheme+"://USER@HOST/PATH", "policy explain: a login has a user")
	}
	if len(headers) > 0 {
		return req, cli.Usage("", "policy explain: a login has no headers")
	}
	host, path, _ := strings.Cut(rest, "/")
	login := &api.LoginRequest{Protocol: scheme, User: user}
	switch {
	case scheme == policy.Postgres && method == "":
		login.Database = cmp.Or(path, user) // as the server has it
	case scheme == policy.SSH && (method == "" || path != "" && (method == policy.GitFetch || method == policy.GitPush)):
		if path != "" {
			login.Repository = "/" + path // as git sends it
		}
		login.Push = method == policy.GitPush
	default:
		return req, cli.Usage("with ssh and a repository: fetch or push", "policy explain: the method %q of a login", method)
	}
	to, err := authority.ParseHostPort(host, policy.Protocols()[scheme])
	if err != nil {
		return req, cli.Usage("write ssh://USER@HOST/REPOSITORY or postgres://USER@HOST/DATABASE", "policy explain: %v", err)
	}
	req.Connect, req.Login = to.String(), login
	return req, nil
}

// isToken reports whether a word can be a method (RFC 9110, 5.6.2).
func isToken(word string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func (a *app) tellExplanation(x api.Explanation) {
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

func (a *app) policyTest() *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE...",
		Short: "Hold the files on disk against a list of expected answers",
		Long: `Hold the files on disk against a list of expected answers:

  tests:
    - {name: the API is reachable, connect: "api.example.com:443", want: allow}
    - {connect: gist.github.com, want: deny}
    - {request: "DELETE https://api.example.com/repos/x", want: ask}
    - {request: "GET https://api.example.com/", headers: {X-Team: blue}, want: allow}

In a project its own files are part of them.`,
		Args: cli.Args(1, 1<<20),
		RunE: func(_ *cobra.Command, files []string) error {
			l, err := a.OnDisk()
			if err != nil {
				return err
			}
			project, own, err := a.HereWords()
			if err != nil {
				return err
			}
			s, err := l.In(project, own)
			if err != nil {
				return err
			}
			failed := 0
			for _, file := range files {
				tests, err := a.readTests(file)
				if err != nil {
					return err
				}
				asked, err := wanted(tests)
				if err != nil {
					return err
				}
				failed += a.tellTests(file, tests, policy.RunTests(s, asked))
			}
			if failed > 0 {
				return &cli.StatusError{Status: cli.StatusFailed}
			}
			return nil
		},
	}
}

func (a *app) readTests(file string) ([]config.PolicyTest, error) {
	from, name := io.Reader(a.Stdin), "stdin"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read tests: %w", err)
		}
		defer f.Close()
		from, name = f, file
	}
	text, err := io.ReadAll(io.LimitReader(from, config.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read tests: %w", err)
	}
	return config.ParsePolicyTests(name, text)
}

func wanted(tests []config.PolicyTest) ([]policy.Test, error) {
	out := make([]policy.Test, 0, len(tests))
	for _, t := range tests {
		effect, err := policy.ParseEffect(string(t.Want))
		if err != nil {
			return nil, err
		}
		test := policy.Test{Name: t.Name, Connect: t.Connect, Want: effect}
		if t.Request != "" {
			if test.Connect, test.HTTP, err = requested(t); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", t.Place.File, t.Place.Line, err)
			}
		}
		out = append(out, test)
	}
	return out, nil
}

// requested reads METHOD URL.
func requested(t config.PolicyTest) (string, *policy.HTTP, error) {
	method, url, ok := strings.Cut(t.Request, " ")
	if !ok || !strings.Contains(url, "://") {
		return "", nil, cli.Usage("such as request: GET https://api.example.com/repos", "request %q: want METHOD URL",
			t.Request)
	}
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		headers = append(headers, name+": "+t.Headers[name])
	}
	req, err := explained(url, method, headers)
	if err != nil {
		return "", nil, err
	}
	q := explain.HTTP(req)
	return req.Connect, &q, nil
}

func (a *app) tellTests(file string, tests []config.PolicyTest, results []policy.TestResult) (failed int) {
	for i, r := range results {
		if r.Pass {
			a.Line("ok    %s", r.Test.Name)
			continue
		}
		failed++
		place := fmt.Sprintf("%s:%d", file, tests[i].Place.Line)
		if r.Err != nil {
			a.Line("FAIL  %s (%s): %v", r.Test.Name, place, r.Err)
			continue
		}
		a.Line("FAIL  %s (%s): %s is %s, not %s: %s", r.Test.Name, place, cmp.Or(tests[i].Request, r.Test.Connect),
			r.Verdict.Effect, r.Test.Want, r.Verdict.Reason)
	}
	a.Line("%d of %d as expected", len(results)-failed, len(results))
	return failed
}
