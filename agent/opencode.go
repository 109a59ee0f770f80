package agent

func init() { register(opencode) }

// opencode is OpenCode.
func opencode() Agent {
	return Agent{
		Name: "opencode", Argv: []string{"opencode"},
		Env:     map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
		Package: "opencode-ai",
		Logins: []Credential{{
			Word: "key", Secret: "ANTHROPIC_API_KEY", Host: "api.anthropic.com", Header: "x-api-key",
			Get: "console.anthropic.com makes API keys", Check: "/v1/models?limit=1",
			With: []string{"anthropic-version: 2023-06-01"},
		}},
		Obeys:     []Obeyed{{".opencode", Ignoring}, {"opencode.json", Blank}, {"opencode.jsonc", Blank}},
		Variables: []string{"OPENCODE_", "OPENROUTER_"},
		Headless: []string{
			"-v", "--version", "-h", "--help", "run", "models", "auth", "agent", "mcp", "stats", "export", "import", "session",
		},
		instructions: func(string) []File {
			return []File{{"/etc/opencode/opencode.json", settings(map[string]any{"instructions": []string{textAt}})}}
		},
	}
}
