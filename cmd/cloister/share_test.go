package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestShare reads the files that other programs use to start cloister, and holds every
// command in them to the command tree.
func TestShare(t *testing.T) {
	top := filepath.Join("..", "..", "share")
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var tasks struct {
		Tasks []struct {
			Label, Command string
			Args           []string
		}
	}
	if err := json.Unmarshal(read("vscode/tasks.json"), &tasks); err != nil || len(tasks.Tasks) == 0 {
		t.Fatalf("tasks.json: %v, %+v", err, tasks)
	}
	for _, task := range tasks.Tasks {
		if task.Command != "cloister" {
			t.Errorf("%s: %s", task.Label, task.Command)
		}
		checkCommand(t, task.Label, task.Args)
	}
	var action struct {
		Inputs map[string]any
		Runs   struct{ Steps []struct{ Run string } }
	}
	if err := yaml.Unmarshal(read("github/action.yml"), &action); err != nil || len(action.Runs.Steps) != 2 {
		t.Fatalf("action.yml: %v, %+v", err, action)
	}
	for _, s := range action.Runs.Steps {
		checkScript(t, "action.yml", s.Run)
	}
	for _, used := range regexp.MustCompile(`inputs\.([a-z]+)`).FindAllStringSubmatch(string(read("github/action.yml")), -1) {
		if _, is := action.Inputs[used[1]]; !is {
			t.Errorf("action.yml: there is no input %s", used[1])
		}
	}
	var gitlab map[string]struct {
		Before []string `yaml:"before_script"`
		Script []string `yaml:"script"`
	}
	if err := yaml.Unmarshal(read("gitlab/cloister.yml"), &gitlab); err != nil || len(gitlab[".cloister"].Script) == 0 {
		t.Fatalf("cloister.yml: %v, %+v", err, gitlab)
	}
	checkScript(t, "cloister.yml", strings.Join(append(gitlab[".cloister"].Before, gitlab[".cloister"].Script...), "\n"))
	for line := range strings.Lines(string(read("systemd/cloister-guardian.service"))) {
		if words, is := strings.CutPrefix(line, "ExecStart=/usr/bin/cloister "); is {
			checkCommand(t, "the unit", strings.Fields(words))
			return
		}
	}
	t.Error("the unit starts nothing")
}

var calls = regexp.MustCompile(`(?m)(?:^|[(|;&] *)cloister ([^)\n|]*)`)

// checkScript lets bash read a script, and looks at each call of cloister in it.
func checkScript(t *testing.T, name, script string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-n")
	c.Stdin = strings.NewReader(script)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", name, err, out)
	}
	for _, m := range calls.FindAllStringSubmatch(script, -1) {
		checkCommand(t, name, strings.Fields(m[1]))
	}
}

// checkCommand finds a command's verb, and each flag in front of --.
func checkCommand(t *testing.T, name string, words []string) {
	t.Helper()
	root := newRoot(&app{env: environ{}}, "")
	if len(words) == 1 && words[0] == "claude" {
		return // an agent
	}
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root {
		t.Errorf("%s: cloister %s: %v", name, strings.Join(words, " "), err)
		return
	}
	for _, w := range rest {
		if w == "--" {
			return
		}
		if flag, is := strings.CutPrefix(w, "--"); is && cmd.Flags().Lookup(flag) == nil {
			t.Errorf("%s: cloister %s has no flag %s", name, cmd.Name(), w)
		}
	}
}
