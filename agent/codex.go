package agent

import (
	"encoding/json"
	"fmt"
)

// codexSystem is what Codex reads before the settings of the home.
const codexSystem = "/etc/codex/config.toml"

// codexQuiet switches off the sandbox that Codex would enclose its commands in, which cannot be had in a
// cloister, and leaves out what Codex asks of servers beside the model: a newer version, its
// own plugins, another server's list of models, and reports. The person's own settings go
// before these. Its line of the day has no setting: one refusal a start is left.
const codexQuiet = `check_for_update_on_startup = false
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[otel]
metrics_exporter = "none"
[features]
plugins = false
api_key_model_discovery = false
`

// codexTurns is a hook of the system's, which Codex runs without asking whether it is trusted.
const codexTurns = `[[hooks.UserPromptSubmit]]
[[hooks.UserPromptSubmit.hooks]]
type = "command"
command = %s
timeout = %d
`

func init() { register(codex) }

// codex is Codex CLI.
func codex() Agent {
	return Agent{
		Name: "codex", Argv: []string{"codex", "--dangerously-bypass-approvals-and-sandbox"},
		// The name is what its hook gave, of a conversation at the terminal or by exec.
		ResumeOne: []string{"resume", "{id}", "{}"},
		Package:   "@openai/codex",
		Logins: []Credential{{
			Word: "key", Secret: "OPENAI_API_KEY", Host: "api.openai.com", Header: "Authorization", Format: "Bearer {}",
			Get: "platform.openai.com makes API keys", Check: "/v1/models",
		}},
		Obeys:     []Obeyed{{".codex", Folder}},
		Keeps:     []string{".codex"},
		Variables: []string{"OPENAI_", "CODEX_"},
		Headless: []string{
			"-V", "--version", "-h", "--help", "exec", "e", "review", "login", "logout", "mcp", "features", "apply", "a",
		},
		home: codexHome,
		instructions: func(text string) []File {
			return []File{{codexSystem, "developer_instructions = " + tomlText(text) + "\n"}}
		},
		turns: func(command string) []File {
			return []File{{codexSystem, fmt.Sprintf(codexTurns, tomlText(command), hookSeconds)}}
		},
	}
}

// codexHome logs Codex in, which reads no variable of its own at a terminal.
func codexHome(folders []string, variable func(string) string) Home {
	h := Home{System: []File{{codexSystem, codexQuiet}}}
	for _, dir := range folders {
		h.System = append(h.System, File{codexSystem, "[projects." + tomlText(dir) + "]\ntrust_level = \"trusted\"\n"})
	}
	key := variable("OPENAI_API_KEY")
	if key == "" {
		return h
	}
	text, err := json.Marshal(map[string]any{"auth_mode": "apikey", "OPENAI_API_KEY": key})
	if err == nil { // two texts
		h.Files = append(h.Files, File{".codex/auth.json", string(text) + "\n"})
	}
	return h
}
