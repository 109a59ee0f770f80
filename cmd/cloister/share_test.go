package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cloister/cmd/cloister/cli"

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
	root := newRoot(&app{cli.App{Env: cli.Environ{}}}, "")
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

// TestFeature runs the installation of the devcontainer feature from a release in a
// folder: what has another sum is not installed.
func TestFeature(t *testing.T) {
	top := filepath.Join("..", "..", "share", "devcontainer")
	text, err := os.ReadFile(filepath.Join(top, "devcontainer-feature.json"))
	if err != nil {
		t.Fatal(err)
	}
	var feature struct {
		ID, Version, Name, PostCreateCommand string
		Options                              map[string]struct{ Type, Default string }
	}
	if err := json.Unmarshal(text, &feature); err != nil || feature.ID != "cloister" || feature.Version == "" {
		t.Fatalf("%+v, %v", feature, err)
	}
	checkScript(t, "the feature", feature.PostCreateCommand)
	script, err := os.ReadFile(filepath.Join(top, "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	checkScript(t, "the feature", string(script))
	for name := range feature.Options {
		if !strings.Contains(string(script), "${"+strings.ToUpper(name)+":-") {
			t.Errorf("install.sh does not read the option %s", name)
		}
	}
	release := t.TempDir()
	sh := func(script string, env ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "sh", "-euc", script)
		c.Dir, c.Env = release, append([]string{"PATH=/usr/bin:/bin", "HOME=" + release}, env...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	installer, err := filepath.Abs("../../script/install")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := sh(`arch=$(uname -m | sed 's/x86_64/amd64/; s/aarch64/arm64/') name=cloister_1.0.0_linux_$arch
		mkdir -p "$name/man" "$name/completions" && echo 'echo cloister 1.0.0' >"$name/cloister" && sed -i '1i #!/bin/sh' "$name/cloister"
		touch "$name/man/a.gz" "$name/completions/cloister.bash" "$name/completions/_cloister" "$name/completions/cloister.fish"
		tar -czf "$name.tar.gz" "$name" && rm -r "$name" && cp "$INSTALLER" install.sh && sha256sum -- *.gz install.sh >SHA256SUMS`, "INSTALLER="+installer); err != nil {
		t.Fatal(out)
	}
	install, err := filepath.Abs(filepath.Join(top, "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(prefix string) (string, error) {
		return sh(`sh "$FEATURE"`, "FEATURE="+install, "RELEASE="+release, "PREFIX="+filepath.Join(release, prefix))
	}
	if out, err := run("good"); err != nil || !strings.Contains(out, "cloister 1.0.0") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := sh(`sh "$FEATURE"`, "FEATURE="+install); err == nil || !strings.Contains(out, "names no release") {
		t.Errorf("without a release: %v: %s", err, out)
	}
	for _, spoilt := range []string{"install.sh", "*.tar.gz"} {
		if out, err := sh(`for f in ` + spoilt + `; do cp "$f" keep && echo x >>"$f"; done`); err != nil {
			t.Fatal(out)
		}
		out, err := run("bad")
		if _, there := os.Stat(filepath.Join(release, "bad", "bin", "cloister")); err == nil || there == nil || !strings.Contains(out, "nothing was installed") {
			t.Errorf("%s was changed: %v: %s", spoilt, err, out)
		}
		if out, err := sh(`for f in ` + spoilt + `; do mv keep "$f"; done`); err != nil {
			t.Fatal(out)
		}
	}
}
