package hostrules_test

import (
	"strings"
	"testing"

	"cloister/hostexec/hostrules"
	"cloister/policy"
)

const (
	acme  = "https://git.example/acme/app.git"
	other = "https://git.example/other.git"
)

func TestJudgeGit(t *testing.T) {
	r := compiled(t,
		hostrules.Rule{Effect: policy.Deny, Pattern: "^git push --force"},
		hostrules.Rule{Effect: policy.Deny, Program: "git", Args: []string{"push", other, "main"}},
		hostrules.Rule{Effect: policy.Ask, Program: "git", Args: []string{"push", acme, "<ref>"}},
		hostrules.Rule{Effect: policy.Ask, Pattern: "^git push origin [a-z]+$"},
		hostrules.Rule{Effect: policy.Allow, Pattern: `^git push https://git\.example/acme/app\.git bot/[a-z]+$`},
		hostrules.Rule{Effect: policy.Allow, Pattern: `^git push backup main$`},
		hostrules.Rule{Effect: policy.Allow, Program: "git", Args: []string{"push", other, "<ref>"}},
		hostrules.Rule{Effect: policy.Allow, Program: "git", Args: []string{"fetch", acme}},
	)
	for _, c := range []struct {
		argv, said string
		want       policy.Effect
	}{
		{"git push " + acme + " main", "", policy.Ask},
		{"git push " + acme + " bot/one", "", policy.Ask}, // ask comes before auto
		{"git push --force " + acme + " main", "", policy.Deny},
		{"git push " + acme + " main", "git push --force origin main", policy.Deny}, // it was meant, at least
		{"git push " + other + " next", "", policy.Allow},
		{"git push " + other + " main", "", policy.Deny},
		{"git push --delete " + other + " next", "", policy.Ask}, // a flag that the rule does not name
		{"git push https://evil.example/x main", "", policy.Deny},
		// What was typed inside is the cloister's word: enough to ask, never to allow.
		{"git push https://evil.example/x main", "git push origin main", policy.Ask},
		{"git push https://evil.example/x main", "git push backup main", policy.Deny},
		{"git fetch " + acme, "", policy.Allow},
		{"git fetch " + other, "", policy.Deny},
	} {
		v := r.JudgeGit(strings.Fields(c.argv), c.said)
		if v.Effect != c.want {
			t.Errorf("%s (said %q): %s (%s), want %s", c.argv, c.said, v.Effect, v.Reason, c.want)
		}
		if v.Effect == policy.Deny && len(v.Hints) == 0 {
			t.Errorf("%s: no hint", c.argv)
		}
	}
	var none *hostrules.Set
	if v := none.JudgeGit([]string{"git", "fetch", acme}, "git fetch"); v.Effect != policy.Deny {
		t.Errorf("no rules: %+v", v)
	}
}

func TestMayPush(t *testing.T) {
	for _, c := range []struct {
		rule hostrules.Rule
		want bool
	}{
		{hostrules.Rule{Program: "git", Args: []string{"push", acme, "<ref>"}}, true},
		{hostrules.Rule{Program: "git", Args: []string{"push", other, "<ref>"}}, false},
		{hostrules.Rule{Program: "git", Args: []string{"push", "<any>", "<ref>"}}, true},
		{hostrules.Rule{Program: "git", Args: []string{"fetch", acme}}, false},
		{hostrules.Rule{Pattern: "^git push .*$"}, true},
		{hostrules.Rule{Pattern: `^git push https://git\.example/.*$`}, true},
		{hostrules.Rule{Pattern: `^git push --force https://git\.example/acme/app\.git main$`}, true},
		{hostrules.Rule{Pattern: `^git push https://git\.example/other\.git main$`}, false},
		{hostrules.Rule{Pattern: "^git pull$"}, false},
		{hostrules.Rule{Pattern: "^g.*$"}, false},
	} {
		c.rule.Effect = policy.Ask
		if got := compiled(t, c.rule).MayPush(acme); got != c.want {
			t.Errorf("%+v: %v, want %v", c.rule, got, c.want)
		}
	}
}
