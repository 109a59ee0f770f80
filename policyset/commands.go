package policyset

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"cloister/config"
	"cloister/git"
	"cloister/hostexec/hostrules"
	"cloister/internal/source"
	"cloister/policy"
)

// hostRules compiles the rules for host commands, each problem with its place.
func hostRules(h config.Hostexec) (*hostrules.Set, error) {
	var list []hostrules.Rule
	var errs []error
	for _, one := range []struct {
		effect policy.Effect
		rules  []config.CommandRule
	}{{policy.Deny, h.Deny}, {policy.Ask, h.ManualApprove}, {policy.Allow, h.AutoApprove}} {
		for _, r := range one.rules {
			rule := hostrules.Rule{
				Effect: one.effect, Pattern: r.Pattern, Program: r.Program, Args: r.Args, Flags: r.Flags,
				Place: fmt.Sprintf("%s:%d", filepath.Base(r.Place.File), r.Place.Line),
			}
			err := hostrules.Check(rule)
			if err == nil && rule.Program == "git" {
				rule.Args, err = gitRule(rule.Args)
			}
			if err != nil {
				errs = append(errs, &source.Problem{Position: r.Place, Msg: "hostexec: " + err.Error()})
				continue
			}
			list = append(list, rule)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	compiled, _ := hostrules.Compile(list) // each was checked
	return compiled, nil
}

// gitRule holds a rule about fetch or push to the one spelling that a remote has.
func gitRule(args []string) ([]string, error) {
	if len(args) < 2 || args[0] != "push" && args[0] != "fetch" || strings.HasPrefix(args[1], "<") {
		return args, nil
	}
	remote, err := git.ParseRemote(args[1])
	if err != nil {
		return nil, err
	}
	out := append([]string{}, args...)
	out[1] = remote.URL
	return out, nil
}
