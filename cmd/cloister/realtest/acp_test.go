package realtest

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An editorTold is what testdata/editor.mjs was asked, and what the agent did.
type editorTold struct {
	Powers, Permissions, Updates []string
	Text                         string
	Ended                        struct{ StopReason string }
	Status                       int
}

// TestACP has an editor of the protocol's own library work with real agents inside, which
// it would grant any power over the host: the agents' edits and commands happen inside.
func TestACP(t *testing.T) {
	for _, tt := range []struct {
		name, program, key, has string
		command                 []string
		mends                   func(*world) []step
		env                     []string
	}{
		{"claude", "claude-agent-acp", "sk-ant-test-acp1", "Bash", []string{"claude-agent-acp"}, claudeMends, nil},
		{
			"opencode", "opencode", "sk-ant-test-acp2", "bash", []string{"opencode", "acp"}, opencodeMends,
			[]string{"-e", "OPENCODE_DISABLE_MODELS_FETCH=1", "-e", `OPENCODE_CONFIG_CONTENT={"model":"anthropic/claude-sonnet-4-5"}`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			prefix := w.agent(tt.program)
			node := need(t, "node", "node")
			w.wrongAdd()
			api := &messagesAPI{has: tt.has, last: "Fixed: add adds now.", steps: tt.mends(w)}
			w.net.handle("api.anthropic.com", api)
			w.configure()
			w.ran = true
			editor, err := filepath.Abs("testdata/editor.mjs")
			if err != nil {
				t.Fatal(err)
			}
			words := slices.Concat([]string{editor, filepath.Join(prefix, "lib/node_modules/@agentclientprotocol/claude-agent-acp/node_modules/@agentclientprotocol/sdk/dist/acp.js"),
				"add.js does not add. Fix it.", binary, "run", "--acp", "-e", "ANTHROPIC_API_KEY=" + tt.key}, tt.env, []string{"--"}, tt.command)
			c := exec.CommandContext(t.Context(), node, words...)
			c.Dir, c.Env = w.project, w.environ()
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			if err := c.Run(); err != nil {
				t.Fatalf("the editor: %v\n%s\n%s", err, out.String(), errs.String())
			}
			var told editorTold
			if err := json.Unmarshal(out.Bytes(), &told); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			if !strings.Contains(told.Text, api.last) || told.Ended.StopReason != "end_turn" {
				t.Errorf("the agent said %q and ended with %q; stderr: %s", told.Text, told.Ended.StopReason, errs.String())
			}
			if len(told.Powers) != 0 {
				t.Errorf("the editor was asked for %q", told.Powers)
			}
			if !slices.Contains(told.Updates, "tool_call") {
				t.Errorf("the editor saw no call of a tool: %q", told.Updates)
			}
			api.check(t, tt.key)
			checkPayload(t, api.result(0))
			for i, want := range map[int]string{0: "WRONG", 1: "a - b", 4: "RIGHT"} {
				if !strings.Contains(api.result(i), want) {
					t.Errorf("step %d: %q does not tell %q", i, api.result(i), want)
				}
			}
			w.checkFixed()
		})
	}
}
