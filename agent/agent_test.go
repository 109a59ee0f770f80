package agent_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloister/agent"
)

// Each agent has a file of its name, and what every agent must say about itself.
func TestEveryAgentIsComplete(t *testing.T) {
	names := agent.Names()
	if len(names) < 4 {
		t.Fatalf("only %q", names)
	}
	for _, name := range names {
		a := agent.Find(name)
		if _, err := os.Stat(strings.TrimSuffix(name, "-agent") + ".go"); err != nil {
			t.Errorf("%s has no file of its name: %v", name, err)
		}
		if len(a.Argv) == 0 || a.Argv[0] != name || a.Install == "" || len(a.Logins) == 0 {
			t.Errorf("%s lacks a program, a way to install it or a login: %+v", name, a)
		}
		if !a.IsHeadless([]string{"--help"}) || a.IsHeadless([]string{"fix the tests"}) || a.IsHeadless(nil) {
			t.Errorf("%s: which forms draw no screen: %q", name, a.Headless)
		}
		for _, o := range a.Obeys {
			if o.Path == "" || strings.Contains(o.Path, "/") {
				t.Errorf("%s: %q is no name at a project's top", name, o.Path)
			}
		}
		if len(a.Obeys) == 0 {
			t.Errorf("%s obeys nothing of a project", name)
		}
		for _, l := range a.Logins {
			if l.Word == "" || l.Secret == "" || l.Host == "" || l.Header == "" || l.Get == "" {
				t.Errorf("%s: an incomplete login: %+v", name, l)
			}
			if !slices.ContainsFunc(agent.AllVariables(), func(v string) bool { return strings.HasPrefix(l.Secret, v) }) {
				t.Errorf("%s: a repository may set %s", name, l.Secret)
			}
		}
	}
	if unknown := agent.Find("other"); !slices.Equal(unknown.Argv, []string{"other"}) || len(unknown.Env) > 0 {
		t.Errorf("an unknown agent has needs: %+v", unknown)
	}
}

func TestHomes(t *testing.T) {
	const key = "0123456789abcdefghijklmnopqrst"
	variable := func(string) string { return key }
	none := func(string) string { return "" }
	folders := []string{"/p"}

	claude := agent.HomeOf("claude", folders, variable)
	approved := slices.IndexFunc(claude.Answers, func(a agent.Answer) bool { return a.Add })
	if approved < 0 || claude.Answers[approved].Value != key[len(key)-20:] {
		t.Errorf("claude knows a key by its last 20 letters: %+v", claude.Answers)
	}
	if trusts := slices.ContainsFunc(claude.Answers, func(a agent.Answer) bool {
		return slices.Equal(a.Keys, []string{"projects", "/p", "hasTrustDialogAccepted"})
	}); !trusts {
		t.Errorf("claude asks whether it may trust the project: %+v", claude.Answers)
	}
	if h := agent.HomeOf("claude", folders, none); slices.ContainsFunc(h.Answers, func(a agent.Answer) bool { return a.Add }) {
		t.Errorf("a key is approved where there is none: %+v", h.Answers)
	}

	codex := agent.HomeOf("codex", folders, variable)
	if len(codex.Files) != 1 || codex.Files[0].Path != ".codex/auth.json" || !strings.Contains(codex.Files[0].Text, key) {
		t.Errorf("codex finds no login: %+v", codex.Files)
	}
	if len(codex.System) != 2 || !strings.Contains(codex.System[1].Text, `[projects."/p"]`) {
		t.Errorf("codex asks whether it may trust the project: %+v", codex.System)
	}
	// Their own sandboxes, which cannot be had inside, are switched off.
	if len(claude.System) != 1 || !strings.Contains(claude.System[0].Text, `"enabled": false`) ||
		!strings.Contains(codex.System[0].Text, "\nsandbox_mode = \"danger-full-access\"\n") ||
		agent.Find("gemini").Env["GEMINI_SANDBOX"] != "false" {
		t.Errorf("%+v, %+v", claude.System, codex.System)
	}
	// What stands before the first table of TOML is of no table: the instructions come first.
	if len(codex.System) < 1 || !strings.HasPrefix(codex.System[0].Text, "check_for_update_on_startup = false\n") {
		t.Errorf("codex asks servers beside the model: %+v", codex.System)
	}
	if h := agent.HomeOf("codex", folders, none); len(h.Files) != 0 {
		t.Errorf("codex finds a login without a key: %+v", h.Files)
	}

	if h := agent.HomeOf("gemini", folders, variable); len(h.Answers) != 4 || h.Answers[3].Value != "gemini-api-key" {
		t.Errorf("gemini asks how to log in: %+v", h)
	}
	if h := agent.HomeOf("gemini", folders, none); len(h.Answers) != 3 || h.Answers[0].Value != false {
		t.Errorf("gemini reports and updates itself, or has a login without a key: %+v", h)
	}
	for _, h := range []agent.Home{
		agent.HomeOf("opencode", folders, variable), agent.HomeOf("other", folders, variable),
	} {
		if len(h.Answers)+len(h.Files)+len(h.System) != 0 {
			t.Errorf("a home that needs nothing holds %+v", h)
		}
	}
}

func TestResumed(t *testing.T) {
	if got := agent.Find("claude").Resumed("", "go on"); !slices.Equal(got, []string{"--continue", "go on"}) {
		t.Errorf("claude goes on with %q", got)
	}
	for conversation, want := range map[string][]string{"": {"go on"}, "some": {"resume", "some", "go on"}} {
		if got := agent.Find("codex").Resumed(conversation, "go on"); !slices.Equal(got, want) {
			t.Errorf("codex goes on with %q in %q", got, conversation)
		}
	}
	if got := agent.Find("gemini").Resumed("some", "go on"); !slices.Equal(got, []string{"go on"}) {
		t.Errorf("gemini, which cannot, is started with %q", got)
	}
}

// What the docs say of agents names each: a new one has its line there.
func TestEveryAgentIsInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range agent.Names() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("README.md does not name %s", name)
		}
	}
}

// An agent is in its own file alone: no other part of the product names a file, a folder or
// a variable of one (examples in help texts may name an agent).
func TestNoOtherRoomKnowsAnAgent(t *testing.T) {
	var own []string
	for _, o := range agent.AllObeyed() {
		own = append(own, strconv.Quote(o.Path))
	}
	for _, v := range append(agent.AllKept(), agent.AllVariables()...) {
		own = append(own, strconv.Quote(v))
	}
	looked := 0
	err := filepath.WalkDir("..", func(at string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains(notProduct, filepath.ToSlash(strings.TrimPrefix(at, ".."))):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(at)
		looked++
		for _, word := range own {
			if strings.Contains(string(text), word) {
				t.Errorf("%s names %s, which its agent's file says", at, word)
			}
		}
		return err
	})
	if err != nil || looked < 500 {
		t.Fatalf("looked at %d files: %v", looked, err)
	}
}

// notProduct are folders of proofs, and the agents' own.
var notProduct = []string{"/.git", "/agent", "/bench", "/escape", "/script", "/sandbox/sandboxtest"}
