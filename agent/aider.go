package agent

func init() { register(aider) }

// aider is Aider, a program of Python's.
func aider() Agent {
	return Agent{
		Name: "aider", Argv: []string{"aider", "--yes-always"},
		Env: map[string]string{
			"AIDER_CHECK_UPDATE": "false", "AIDER_ANALYTICS": "false", "AIDER_SHOW_RELEASE_NOTES": "false",
			"AIDER_GITIGNORE": "false", // it would write into the project before its first word
		},
		Resume:  []string{"--restore-chat-history", "--message", "{}"},
		Install: "pipx install aider-chat",
		Logins: []Credential{
			{
				Word: "key", Secret: "ANTHROPIC_API_KEY", Host: "api.anthropic.com", Header: "x-api-key",
				Get: "console.anthropic.com makes API keys", Check: "/v1/models?limit=1",
				With: []string{"anthropic-version: 2023-06-01"},
			},
			{
				Word: "openai", Secret: "OPENAI_API_KEY", Host: "api.openai.com", Header: "Authorization", Format: "Bearer {}",
				Get: "platform.openai.com makes API keys", Check: "/v1/models",
			},
		},
		Obeys:     []Obeyed{{".aider.conf.yml", Unheld}},
		Variables: []string{"AIDER_"},
		Headless: []string{
			"-m", "--message", "--msg", "-f", "--message-file", "--version", "-h", "--help", "--list-models", "--models",
		},
	}
}
