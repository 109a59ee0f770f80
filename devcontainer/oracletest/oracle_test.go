package oracletest

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cloister/devcontainer"
	"cloister/devcontainer/demand"
	"cloister/devcontainer/metadata"
	"cloister/internal/needs"

	"github.com/google/go-cmp/cmp"
)

// inEachRun is how many configurations every run compares; CLOISTER_ORACLE names another
// number, and CLOISTER_ORACLE_SEED where they begin.
const inEachRun = 24

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// reference is the program of the reference implementation.
func reference(t *testing.T) string {
	t.Helper()
	needs.Program(t, "node", "npm")
	out, err := exec.CommandContext(t.Context(), "../../script/devcontainers-cli").Output()
	if err != nil {
		t.Skipf("need the reference implementation: script/devcontainers-cli: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestOracle compares generated configurations.
func TestOracle(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("need linux: the reference names folders of the host as they are there")
	}
	program := reference(t)
	count, seed := number(t, "CLOISTER_ORACLE", inEachRun), number(t, "CLOISTER_ORACLE_SEED", 1)
	var lock sync.Mutex
	tally := map[string]int{}
	work := make(chan int)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for n := range work {
				refused := compare(t, program, n)
				lock.Lock()
				for _, key := range refused {
					tally[key]++
				}
				lock.Unlock()
			}
		})
	}
	for n := range count {
		work <- seed + n
	}
	close(work)
	all.Wait()
	t.Logf("%d configurations compared from seed %d; refused or changed of them: %v", count, seed, tally)
}

// compare makes one configuration and gives the keys that a cloister does not take as
// they are.
func compare(t *testing.T, program string, seed int) []string {
	g := &generator{rand.New(rand.NewPCG(uint64(seed), 7))}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Error(err)
		return nil
	}
	text, label := g.file(), g.label()
	file := [...]string{".devcontainer/devcontainer.json", ".devcontainer.json"}[g.IntN(2)]
	engine := filepath.Join(dir, "engine")
	answer, _ := json.Marshal([]any{map[string]any{"Id": "sha256:00", "Os": "linux", "Architecture": "amd64",
		"Config": map[string]any{"User": "", "Env": []string{"PATH=/usr/bin"}, "Labels": map[string]any{metadata.Label: label}}}})
	project := filepath.Join(dir, "work", "project")
	for name, data := range map[string]string{
		filepath.Join(project, file): text, filepath.Join(dir, "inspect.json"): string(answer),
		engine: "#!/bin/sh\ncase $1 in ps) ;; inspect) cat " + dir + "/inspect.json;; *) exit 1;; esac\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Error(err)
			return nil
		}
		if err := os.WriteFile(name, []byte(data), 0o755); err != nil {
			t.Error(err)
			return nil
		}
	}
	env := map[string]string{"HOME": dir, "PATH": os.Getenv("PATH"), "KNOWN": "known value", "EMPTY": "", "DOLLAR": "${localEnv:KNOWN}"}
	c := exec.CommandContext(t.Context(), program, "read-configuration", "--workspace-folder", project,
		"--docker-path", engine, "--include-merged-configuration",
		"--mount-workspace-git-root", "false")
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Errorf("seed %d: the reference refuses it: %v\n%s\n%s", seed, err, said.String(), text)
		return nil
	}
	var want struct {
		Configuration, MergedConfiguration map[string]any
		Workspace                          struct{ WorkspaceFolder string }
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	if err := dec.Decode(&want); err != nil {
		t.Errorf("seed %d: %v: %s", seed, err, out)
		return nil
	}
	delete(want.Configuration, "configFilePath")
	delete(want.MergedConfiguration, "configFilePath")
	// Where neither file nor label has a word that is merged, the reference takes the
	// largest of no numbers.
	if r, ok := want.MergedConfiguration["hostRequirements"].(map[string]any); ok && r["memory"] == "-Infinity" {
		delete(want.MergedConfiguration, "hostRequirements")
	}

	options := devcontainer.Options{Project: project, Home: dir,
		LocalEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	d, err := devcontainer.Read(options)
	if err != nil {
		t.Errorf("seed %d: ours refuses it: %v\n%s", seed, err, text)
		return nil
	}
	entries, err := d.Entries(label)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return nil
	}
	id := func(v any) any { return plain(v, d.ID) }
	merged := metadata.Merge(d.All, append(entries, metadata.OfFile(d.All)))
	for what, pair := range map[string][2]any{
		"configuration":    {id(want.Configuration), id(d.All)},
		"merged":           {id(want.MergedConfiguration), id(merged)},
		"workspace folder": {id(want.Workspace.WorkspaceFolder), id(d.WorkspaceFolder)},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("seed %d: %s (-reference +ours):\n%s\n%s\n%s", seed, what, diff, text, label)
		}
	}
	return explained(t, seed, d)
}

// explained are the keys of which a cloister does not get all, each named by a finding.
func explained(t *testing.T, seed int, d *devcontainer.Devcontainer) []string {
	named := map[string]bool{}
	for _, f := range d.Findings {
		if f.Outcome == demand.Refused || f.Outcome == demand.Changed {
			top, _, _ := strings.Cut(f.Key, ".")
			top, _, _ = strings.Cut(top, "[")
			named[top] = true
		}
	}
	var out []string
	for key, value := range d.All {
		if cmp.Equal(value, d.Config[key]) {
			continue
		}
		if !named[key] {
			t.Errorf("seed %d: of %s there is %v of %v, and no finding names it", seed, key, d.Config[key], value)
		}
		out = append(out, key)
	}
	return out
}

// plain is a value as both print it: the reference leaves ${devcontainerId} as it is
// where there is no container, and has it in another base where there is.
func plain(v any, id string) any {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	var out any
	dec := json.NewDecoder(strings.NewReader(strings.ReplaceAll(string(text), id, "${devcontainerId}")))
	dec.UseNumber()
	if err := dec.Decode(&out); err != nil {
		return err.Error()
	}
	return out
}
