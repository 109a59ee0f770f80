package hostrules_test

import (
	"strings"
	"testing"

	"cloister/hostexec"
	"cloister/hostexec/hostrules"
	"cloister/policy"
)

// HX-02: a pattern speaks of a whole command, or the loader refuses it.
func TestPatternsAreAnchored(t *testing.T) {
	for _, c := range []struct {
		pattern string
		good    bool
	}{
		{"^npm install$", true},
		{"^npm (install|ci)( .+)?$", true},
		{`\Anpm install\z`, true},
		{"^(npm install|yarn)$", true},
		{"npm install", false},
		{"^npm install", false},
		{"npm install$", false},
		{"^a|b$", false},
		{"^a$|^b$", false},
		{"(?m)^npm install$", false},
		{"^npm install$.*", false},
		{"^(unclosed$", false},
	} {
		for _, effect := range []policy.Effect{policy.Ask, policy.Allow} {
			if err := hostrules.Check(hostrules.Rule{Effect: effect, Pattern: c.pattern}); (err == nil) != c.good {
				t.Errorf("%s: %v", c.pattern, err)
			}
		}
	}
	if err := hostrules.Check(hostrules.Rule{Effect: policy.Deny, Pattern: "^git push --force"}); err != nil {
		t.Errorf("a deny may be wide: %v", err)
	}
	for _, r := range []hostrules.Rule{
		{}, {Pattern: "^a$", Program: "a"}, {Pattern: "^a$", Args: []string{"b"}}, {Program: "./a"},
		{Program: "a", Args: []string{"<pth>"}}, {Program: "a", Args: []string{"..."}}, {Program: "a", Args: []string{"<any>", "...", "b"}},
		{Program: "a", Flags: []string{"v"}}, {Program: "a", Flags: []string{"--x=<y>"}},
	} {
		if err := hostrules.Check(r); err == nil {
			t.Errorf("%+v passed", r)
		}
	}
}

func command(argv ...string) *hostexec.Command {
	path := "/usr/bin/" + argv[0]
	return &hostexec.Command{Argv: argv, Program: path, Real: path}
}

func compiled(t *testing.T, list ...hostrules.Rule) *hostrules.Set {
	t.Helper()
	r, errs := hostrules.Compile(list)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return r
}

func TestJudge(t *testing.T) {
	const deny, ask, auto = policy.Deny, policy.Ask, policy.Allow
	r := compiled(t,
		hostrules.Rule{Effect: auto, Pattern: "^npm install$"},
		hostrules.Rule{Effect: auto, Pattern: "^npm test.*$"},
		hostrules.Rule{Effect: ask, Pattern: "^npm install .+$"},
		hostrules.Rule{Effect: deny, Pattern: "^npm install evil"},
		hostrules.Rule{Effect: auto, Program: "go", Args: []string{"mod", "tidy"}, Flags: []string{"-v", "-compat=<any>"}},
		hostrules.Rule{Effect: auto, Program: "go", Args: []string{"test", "<path>", "..."}},
		hostrules.Rule{Effect: auto, Program: "gh", Args: []string{"pr", "view", "<any>"}, Flags: []string{"-R acme/tool", "--repo=acme/tool", "--json <any>", "--web-not=<path>"}},
		hostrules.Rule{Effect: auto, Program: "add", Args: []string{"<package>", "..."}},
		hostrules.Rule{Effect: auto, Program: "/opt/tool", Args: []string{"<ref>"}},
		hostrules.Rule{Effect: auto, Pattern: "^(rg|find|tar|make|bash|env|python3) .*$"},
		hostrules.Rule{Effect: ask, Pattern: "^git .*$"},
		hostrules.Rule{Effect: auto, Pattern: "^cloister .*$"},
	)
	for _, c := range []struct {
		argv []string
		want policy.Effect
	}{
		{[]string{"npm", "install"}, auto},
		{[]string{"npm", "install", "left-pad"}, ask},
		{[]string{"npm", "install", "evil"}, deny},
		{[]string{"npm", "install\n"}, deny},
		{[]string{"npm install"}, deny},
		{[]string{"Npm", "install"}, deny},
		{[]string{"npm", "ci"}, deny},
		{[]string{"go", "mod", "tidy"}, auto},
		{[]string{"go", "mod", "tidy", "-v"}, auto},
		{[]string{"go", "mod", "tidy", "-compat=1.26"}, auto},
		{[]string{"go", "mod", "tidy", "-modfile=/x"}, ask}, // an unknown flag asks
		{[]string{"go", "mod", "tidy", "more"}, deny},
		{[]string{"go", "mod"}, deny},
		{[]string{"go", "test", "./a", "b/c"}, auto},
		{[]string{"go", "test", "./a", "../b"}, deny},
		{[]string{"go", "test", "-exec", "sh"}, ask},
		{[]string{"go", "test", "./a", "-exec=sh"}, ask},
		// A flag with a value, in one word or two; a value that is another asks.
		{[]string{"gh", "pr", "view", "7", "-R", "acme/tool"}, auto},
		{[]string{"gh", "pr", "view", "-R", "acme/tool", "7", "--json", "title"}, auto},
		{[]string{"gh", "pr", "view", "7", "--repo=acme/tool"}, auto},
		{[]string{"gh", "pr", "view", "7", "--repo=acme/other"}, ask},
		{[]string{"gh", "pr", "view", "7", "-R", "acme/other"}, ask},
		{[]string{"gh", "pr", "view", "7", "-R"}, ask},
		{[]string{"gh", "pr", "view", "7", "--json", "--web"}, ask},
		{[]string{"gh", "pr", "view", "7", "--web"}, ask},
		{[]string{"gh", "pr", "merge", "7", "-R", "acme/tool"}, deny},
		{[]string{"add", "left-pad", "@scope/x@1.2.3"}, auto},
		{[]string{"add", "http://evil"}, deny},
		{[]string{"add", "file:../x"}, deny},
		// HX-03: what an allowed program can run or write is not what was meant.
		{[]string{"rg", "x"}, auto},
		{[]string{"rg", "--pre", "sh", "x"}, ask},
		{[]string{"rg", "--pre=sh", "x"}, ask},
		{[]string{"find", ".", "-exec", "sh", "{}", ";"}, ask},
		{[]string{"find", ".", "-delete"}, ask},
		{[]string{"tar", "--checkpoint-action=exec=sh", "-cf", "x", "."}, ask},
		{[]string{"make", "SHELL=/tmp/x"}, ask},
		{[]string{"bash", "-c", "id"}, ask},
		{[]string{"env", "x=y", "id"}, ask},
		{[]string{"python3", "-c", "x"}, ask},
		// HX-04, HX-05: git never, nor cloister itself (HX-27).
		{[]string{"git", "-c", "core.pager=sh", "log"}, deny},
		{[]string{"git", "status"}, deny},
		{[]string{"cloister", "approvals", "approve", "x"}, deny},
	} {
		if v := r.Judge(command(c.argv...)); v.Effect != c.want || v.Reason == "" {
			t.Errorf("%q: %s (%s), want %s", c.argv, v.Effect, v.Reason, c.want)
		}
	}
	tool := &hostexec.Command{Argv: []string{"tool", "main"}, Program: "/opt/tool", Real: "/opt/tool"}
	if v := r.Judge(tool); v.Effect != auto {
		t.Errorf("a whole path: %+v", v)
	}
	for _, ref := range []string{"-x", "a..b", "a lock", "x.lock", "--upload-pack=sh"} {
		tool.Argv[1] = ref
		if v := r.Judge(tool); v.Effect == auto {
			t.Errorf("%q passed for a ref", ref)
		}
	}
	var none *hostrules.Set
	if v := none.Judge(command("ls")); v.Effect != deny {
		t.Errorf("no rules: %+v", v)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("npm", "install", "x")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		r := compiled(t, hostrules.Rule{Effect: policy.Allow, Pattern: "^npm install( [a-z]+)?$"})
		got := r.Judge(&hostexec.Command{Argv: []string{a, b, c}, Program: "/x", Real: "/x"})
		lower := c != "" && !strings.ContainsFunc(c, func(r rune) bool { return r < 'a' || r > 'z' })
		if got.Effect == policy.Allow && (a != "npm" || b != "install" || !lower) {
			t.Fatalf("%q %q %q passed", a, b, c)
		}
	})
}
