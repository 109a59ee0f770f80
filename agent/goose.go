package agent

func init() { register(goose) }

// goose is Goose.
func goose() Agent {
	return Agent{
		Name: "goose", Argv: []string{"goose"},
		Env: map[string]string{
			"GOOSE_MODE": "auto", "GOOSE_PROVIDER": "anthropic",
			"GOOSE_DISABLE_KEYRING": "1", // inside there is none
		},
		Install: "see block.github.io/goose: it is one binary",
		Logins: []Credential{{
			Word: "key", Secret: "ANTHROPIC_API_KEY", Host: "api.anthropic.com", Header: "x-api-key",
			Get: "console.anthropic.com makes API keys", Check: "/v1/models?limit=1",
			With: []string{"anthropic-version: 2023-06-01"},
		}},
		Obeys: []Obeyed{{".goose", Unheld}},
		// Not GOOSE_: another program of that name, for databases, is common in devcontainers.
		Variables: []string{"GOOSE_PROVIDER", "GOOSE_MODE"},
		Headless:  []string{"run", "info", "doctor", "mcp", "recipe", "schedule", "-V", "--version", "-h", "--help", "help"},
	}
}
