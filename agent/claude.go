package agent

func init() { register(claude) }

// claude is Claude Code.
func claude() Agent {
	const host = "api.anthropic.com"
	return Agent{
		Name: "claude", Argv: []string{"claude", "--dangerously-skip-permissions"},
		Env: map[string]string{
			"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			// Its own plugins come from github.com at every start.
			"CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL": "1",
		},
		// Alone --continue finds none that was had without a terminal (-p).
		Resume: []string{"--continue", "{}"}, ResumeOne: []string{"--resume", "{id}", "{}"},
		Package: "@anthropic-ai/claude-code",
		Logins: []Credential{
			{
				Word: "key", Secret: "ANTHROPIC_API_KEY", Host: host, Header: "x-api-key",
				Get: "console.anthropic.com makes API keys", Check: "/v1/models?limit=1",
				With: []string{"anthropic-version: 2023-06-01"},
			},
			{
				Word: "token", Secret: "CLAUDE_CODE_OAUTH_TOKEN", Host: host, Header: "Authorization", Format: "Bearer {}",
				Get: "claude setup-token makes one for a subscription", Check: "/v1/models?limit=1",
				With: []string{"anthropic-version: 2023-06-01", "anthropic-beta: oauth-2025-04-20"},
			},
		},
		Obeys:     []Obeyed{{".claude", Folder}, {".mcp.json", Blank}},
		Keeps:     []string{".claude", ".claude.json"},
		Variables: []string{"ANTHROPIC_", "CLAUDE_"},
		Headless: []string{
			"-p", "--print", "-v", "--version", "-h", "--help", "agents", "auth", "config", "doctor", "mcp", "plugin",
		},
		home: claudeHome,
		instructions: func(text string) []File {
			return []File{{"/etc/claude-code/CLAUDE.md", text}}
		},
		turns: func(command string) []File {
			return []File{{"/etc/claude-code/managed-settings.d/cloister.json", hooked("UserPromptSubmit", command, 1)}}
		},
	}
}

// claudeSandbox switches off, over the person's and the project's settings, the sandbox that Claude Code would
// enclose its commands in: it cannot be had in a cloister, which is one.
var claudeSandbox = File{"/etc/claude-code/managed-settings.d/cloister-sandbox.json",
	settings(map[string]any{"sandbox": map[string]any{"enabled": false}})}

// claudeHome answers for Claude Code: theme, key, trust, and the mode without prompts.
// It knows a key by its last 20 letters.
func claudeHome(folders []string, variable func(string) string) Home {
	const state, settings = ".claude.json", ".claude/settings.json"
	h := Home{System: []File{claudeSandbox}, Answers: []Answer{
		{File: state, Keys: []string{"hasCompletedOnboarding"}, Value: true, Over: true},
		{File: state, Keys: []string{"bypassPermissionsModeAccepted"}, Value: true, Over: true},
	}}
	for _, dir := range folders {
		h.Answers = append(h.Answers,
			Answer{File: state, Keys: []string{"projects", dir, "hasTrustDialogAccepted"}, Value: true, Over: true},
			Answer{File: state, Keys: []string{"projects", dir, "hasCompletedProjectOnboarding"}, Value: true, Over: true})
	}
	if key := variable("ANTHROPIC_API_KEY"); key != "" {
		end, approved := key[max(0, len(key)-20):], []string{"customApiKeyResponses", "approved"}
		h.Answers = append(h.Answers, Answer{File: state, Keys: approved, Value: end, Add: true})
	}
	h.Answers = append(h.Answers,
		Answer{File: settings, Keys: []string{"skipDangerousModePermissionPrompt"}, Value: true, Over: true},
		Answer{File: settings, Keys: []string{"theme"}, Value: "dark"})
	return h
}
