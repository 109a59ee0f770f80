package hostrules

import (
	"regexp/syntax"
	"slices"
	"strings"

	"cloister/hostexec"
	"cloister/policy"
)

// JudgeGit says what the rules say of git fetch URL, or of git push [--force]
// [--delete] URL BRANCH: what the guardian knows to be so. The words that were
// typed inside are the cloister's: a rule that denies or asks may speak of them,
// one that allows may not.
func (r *Set) JudgeGit(argv []string, said string) policy.Verdict {
	c := &hostexec.Command{Argv: argv, Program: "git", Real: "git"}
	line := hostexec.Line(argv)
	match := func(one *rule) matched {
		m, _ := one.match(c, line)
		if m == no && one.re != nil && said != "" && one.re.MatchString(said) {
			return yes
		}
		return m
	}
	if r == nil {
		return policy.Verdict{Reason: "no rule names this", Hints: []string{gitHint(argv)}}
	}
	for _, d := range r.deny {
		if match(&d) != no {
			return d.verdict(policy.Deny, "")
		}
	}
	for _, a := range r.ask {
		if m := match(&a); m != no {
			return a.verdict(policy.Ask, "")
		}
	}
	for _, a := range r.auto {
		switch m, why := a.match(c, line); m {
		case yes:
			return a.verdict(policy.Allow, "")
		case unknown:
			return a.verdict(policy.Ask, why)
		case no:
		}
	}
	return policy.Verdict{Reason: "no rule names this", Hints: []string{gitHint(argv)}}
}

// gitHint is a rule that would ask, for the words of one fetch or push.
func gitHint(argv []string) string {
	words := slices.DeleteFunc(slices.Clone(argv), func(a string) bool { return strings.HasPrefix(a, "-") })[1:]
	args := "push, '" + words[1] + "', <ref>"
	if words[0] == "fetch" {
		args = "fetch, '" + words[1] + "'"
	}
	return "in config.yaml: hostexec: {manual_approve: [{program: git, args: [" + args + "]}]}"
}

// NamesRemote reports whether a rule that asks or allows names this very remote for
// fetch or push: a person wrote it down.
func (r *Set) NamesRemote(verb, url string) bool {
	return slices.Contains(r.Remotes(verb), url)
}

// Remotes are the remotes that rules which ask or allow name for fetch or push.
func (r *Set) Remotes(verb string) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, one := range append(slices.Clone(r.ask), r.auto...) {
		if one.Program == "git" && len(one.Args) >= 2 && one.Args[0] == verb && !strings.HasPrefix(one.Args[1], "<") {
			out = append(out, one.Args[1])
		}
	}
	return out
}

// MayPush reports whether a rule could let a push to this remote happen, whatever
// branch it is for.
func (r *Set) MayPush(url string) bool {
	if r == nil {
		return false
	}
	for _, one := range append(slices.Clone(r.ask), r.auto...) {
		if one.re != nil && begins(one.Pattern, url) {
			return true
		}
		if one.Program == "git" && len(one.Args) >= 2 && one.Args[0] == "push" &&
			(one.Args[1] == url || one.Args[1] == "<any>") {
			return true
		}
	}
	return false
}

// begins reports whether a pattern could match a push to a remote: whether what it
// begins with and what such a push begins with are the same as far as they go.
func begins(pattern, url string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || tree.Op != syntax.OpConcat || len(tree.Sub) < 2 || tree.Sub[0].Op != syntax.OpBeginText {
		return false
	}
	first := tree.Sub[1]
	if first.Op != syntax.OpLiteral || first.Flags&syntax.FoldCase != 0 {
		return false
	}
	literal := string(first.Rune)
	for _, flags := range []string{"", "--force ", "--force --delete "} {
		line := "git push " + flags + hostexec.Line([]string{url})
		if strings.HasPrefix(line, literal) || strings.HasPrefix(literal, line) {
			return strings.HasPrefix(literal, "git push")
		}
	}
	return false
}
