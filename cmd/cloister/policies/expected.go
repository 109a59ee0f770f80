package policies

import (
	"cmp"
	"fmt"
	"io"
	"os"

	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/policy"
	"cloister/policyset/explain"

	"github.com/spf13/cobra"
)

func (a *Commands) policyTest() *cobra.Command {
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
				asked, err := explain.Expected(tests)
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

func (a *Commands) readTests(file string) ([]config.PolicyTest, error) {
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

func (a *Commands) tellTests(file string, tests []config.PolicyTest, results []policy.TestResult) (failed int) {
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
