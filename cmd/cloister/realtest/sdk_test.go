package realtest

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/audit"
	"cloister/internal/needs"
)

// sdk is a folder of the person's with the modules that script/agents installed in lib/NAME,
// the recipe of share/RECIPE as it is, and the program of testdata/sdk that uses it.
func (w *world) sdk(name, recipe, program string) string {
	w.t.Helper()
	need(w.t, "node", "node")
	prefix := os.Getenv("CLOISTER_AGENTS_PREFIX")
	if prefix == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			w.t.Fatal(err)
		}
		prefix = filepath.Join(cache, "cloister-agents")
	}
	modules := filepath.Join(prefix, "lib", name, "node_modules")
	if _, err := os.Stat(modules); err != nil {
		needs.Missing(w.t, name, err)
	}
	dir := w.folder("app")
	w.write(dir, "cloister.mjs", read(w.t, filepath.Join("../../../share", recipe, "cloister.mjs")))
	w.write(dir, program, read(w.t, filepath.Join("testdata/sdk", program)))
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		w.t.Fatal(err)
	}
	w.env["PATH"] = filepath.Dir(binary) + ":" + w.env["PATH"]
	w.configure()
	return filepath.Join(dir, program)
}

// onHost serves a model to a program outside of any cloister.
func onHost(t *testing.T, api http.Handler) string {
	t.Helper()
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	return s.URL
}

// recorded are the resources of what the record has of a kind.
func (w *world) recorded(kind audit.Kind) []string {
	w.t.Helper()
	var out []string
	for _, e := range w.events() {
		if e.Kind == kind {
			out = append(out, e.Verdict+" "+e.Resource)
		}
	}
	return out
}

// readKey is what an agent is kept from, by whichever tool runs it.
func (w *world) readKey() string { return "cat " + w.home + "/.ssh/id_ed25519" }

// TestClaudeAgentSDK has a program with the SDK use both parts of the recipe, and neither:
// only that one reads the person's key.
func TestClaudeAgentSDK(t *testing.T) {
	const key = "sk-ant-test-sdk1"
	t.Run("inside", func(t *testing.T) {
		w := newWorld(t)
		prefix := w.agent("claude")
		w.wrongAdd()
		api := &messagesAPI{has: "Bash", last: "Fixed: add adds now.", steps: append(claudeMends(w),
			step{"Bash", map[string]any{"command": w.readKey() + "; echo looked", "description": "Look"}})}
		w.net.handle("api.anthropic.com", api)
		program := w.sdk("claude-sdk", "claude-agent-sdk", "claude.mjs")
		w.env["ANTHROPIC_API_KEY"], w.ran = key, true
		if got := w.host("node", program, "inside", filepath.Join(prefix, "bin/claude"), "add.js does not add. Fix it."); got != api.last+"\n" {
			t.Errorf("the program said %q", got)
		}
		api.check(t, key)
		checkPayload(t, api.result(0))
		w.checkFixed()
		w.checkKept(api.result(5))
	})
	t.Run("tools", func(t *testing.T) {
		w := newWorld(t)
		prefix := w.agent("claude")
		// A hook of the project's settings would run on the host.
		w.write(w.project, ".claude/settings.json", `{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"touch `+w.dir+`/hooked"}]}]}}`)
		w.wrongAdd()
		exec := func(line string) step { return step{"mcp__cloister__exec", map[string]any{"command": line}} }
		api := &messagesAPI{has: "mcp__cloister__exec", last: "Fixed: add adds now.", steps: []step{
			exec("node add.test.js; " + whoAmI),
			{"mcp__cloister__write_file", map[string]any{"path": "add.js", "content": "exports.add = (a, b) => a + b\n"}},
			{"mcp__cloister__write_file", map[string]any{"path": "docs/notes.md", "content": "# Notes\n\nadd adds.\n"}},
			exec("node add.test.js && git add -A && git commit -qm 'add: add' && git status --short"),
			exec(w.readKey() + "; echo looked"),
			{"mcp__cloister__read_file", map[string]any{"path": w.home + "/.ssh/id_ed25519"}},
			{"Bash", map[string]any{"command": w.readKey() + " >stolen", "description": "Look"}},
			{"Read", map[string]any{"file_path": w.home + "/.ssh/id_ed25519"}},
		}}
		program := w.sdk("claude-sdk", "claude-agent-sdk", "claude.mjs")
		w.env["ANTHROPIC_API_KEY"], w.env["ANTHROPIC_BASE_URL"], w.ran = key, onHost(t, api), true
		if got := w.host("node", program, "tools", filepath.Join(prefix, "bin/claude"), "add.js does not add. Fix it."); got != api.last+"\n" {
			t.Errorf("the program said %q", got)
		}
		api.check(t, key)
		checkPayload(t, strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(api.result(0))) // the text is JSON
		for i, want := range map[int]string{0: "WRONG", 3: "RIGHT", 5: "ERROR", 6: "No such tool", 7: "No such tool"} {
			if !strings.Contains(api.result(i), want) {
				t.Errorf("step %d: %q does not tell %q", i, api.result(i), want)
			}
		}
		w.checkFixed()
		if err := os.RemoveAll(filepath.Join(w.project, ".claude")); err != nil {
			t.Fatal(err)
		}
		for i := 4; i <= 7; i++ {
			if strings.Contains(api.result(i), "the person's key") {
				t.Errorf("step %d read the person's key", i)
			}
		}
		w.checkKept(api.result(4))
		for _, name := range []string{w.dir + "/hooked", w.project + "/stolen"} {
			if _, err := os.Lstat(name); err == nil {
				t.Errorf("there is %s", name)
			}
		}
		if got := w.recorded(audit.MCPCall); !slices.Contains(got, "allow cloister/exec") || !slices.Contains(got, "allow cloister/write_file") {
			t.Errorf("the record has the calls %q", got)
		}
	})
	t.Run("neither", func(t *testing.T) { // the control: the same words read the key
		w := newWorld(t)
		prefix := w.agent("claude")
		api := &messagesAPI{has: "Bash", last: "Done.", steps: []step{{"Bash", map[string]any{"command": w.readKey(), "description": "Look"}}}}
		program := w.sdk("claude-sdk", "claude-agent-sdk", "claude.mjs")
		w.env["ANTHROPIC_API_KEY"], w.env["ANTHROPIC_BASE_URL"] = key, onHost(t, api)
		w.host("node", program, "host", filepath.Join(prefix, "bin/claude"), "Look.")
		if got := api.result(0); !strings.Contains(got, "the person's key") {
			t.Errorf("without a cloister the agent did not read the key: %q", got)
		}
	})
}

// checkKept holds that a tool ran, but did not find the person's key.
func (w *world) checkKept(text string) {
	w.t.Helper()
	if !strings.Contains(text, "No such file or directory") || !strings.Contains(text, "looked") {
		w.t.Errorf("reading the key told %q", text)
	}
	if strings.Contains(text, "the person's key") {
		w.t.Error("the agent read the person's key")
	}
}

// TestOpenAIAgentsSDK has a program with the SDK use the recipe's client, and the SDK's own
// for this machine: only that one reads the person's key.
func TestOpenAIAgentsSDK(t *testing.T) {
	const key = "sk-test-sdk2"
	command := func(line string) step { return step{"exec_command", map[string]any{"cmd": line}} }
	patch := func(kind, path, diff string) step {
		return step{applyPatch, map[string]any{"type": kind, "path": path, "diff": diff}}
	}
	ask := func(w *world, api *responsesAPI, how string) string {
		program := w.sdk("openai-sdk", "openai-agents", "openai.mjs")
		w.env["OPENAI_API_KEY"], w.env["OPENAI_BASE_URL"] = key, onHost(t, api)+"/v1"
		w.env["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
		return w.host("node", program, how, "add.js does not add. Fix it.")
	}
	t.Run("cloister", func(t *testing.T) {
		w := newWorld(t)
		w.wrongAdd()
		w.ran = true
		if err := os.Symlink(w.home+"/.ssh/id_ed25519", w.project+"/link"); err != nil {
			t.Fatal(err)
		}
		api := &responsesAPI{last: "Fixed: add adds now.", steps: []step{
			command("node add.test.js; " + whoAmI),
			patch("update_file", "add.js", "@@\n-exports.add = (a, b) => a - b\n+exports.add = (a, b) => a + b\n"),
			patch("create_file", "docs/notes.md", "+# Notes\n+\n+add adds.\n+"),
			command(w.readKey() + "; echo looked"),
			patch("update_file", w.home+"/.ssh/id_ed25519", "@@\n-the person's key\n+mine\n"),
			patch("update_file", "link", "@@\n-the person's key\n+mine\n"),
			patch("create_file", w.home+"/planted", "+planted\n"),
			patch("delete_file", "link", ""),
			{"exec_command", map[string]any{"cmd": "pwd; cat notes.md", "workdir": "docs"}},
			command("node add.test.js && git add -A && git commit -qm 'add: add' && git status --short"),
		}}
		if got := ask(w, api, "cloister"); !strings.HasSuffix(got, api.last+"\n") {
			t.Errorf("the program said %q", got)
		}
		api.check(t, "Bearer "+key)
		checkPayload(t, api.result(0))
		for i, want := range map[int]string{
			0: "WRONG", 4: "No such file", 5: "No such file", 8: w.project + "/docs\n# Notes", 9: "RIGHT",
		} {
			if !strings.Contains(api.result(i), want) {
				t.Errorf("step %d: %q does not tell %q", i, api.result(i), want)
			}
		}
		w.checkFixed()
		w.checkKept(api.result(3))
		if got := read(t, w.home+"/.ssh/id_ed25519"); got != "the person's key\n" {
			t.Errorf("the key is %q", got)
		}
		if _, err := os.Lstat(w.home + "/planted"); err == nil {
			t.Error("a file was planted in the home")
		}
		if got := w.recorded(audit.MCPCall); !slices.Contains(got, "allow cloister/exec") || !slices.Contains(got, "allow cloister/read_file") {
			t.Errorf("the record has the calls %q", got)
		}
	})
	t.Run("host", func(t *testing.T) { // the control
		w := newWorld(t)
		api := &responsesAPI{last: "Done.", steps: []step{command(w.readKey())}}
		ask(w, api, "host")
		if got := api.result(0); !strings.Contains(got, "the person's key") {
			t.Errorf("without a cloister the agent did not read the key: %q", got)
		}
	})
}
