package agent

// gemini is Gemini CLI. It reads no instructions of the system's that the payload could
// not write: the person adds them to its own file where they are wanted.
func gemini() Agent {
	return Agent{
		Name: "gemini", Argv: []string{"gemini", "--yolo"},
		// Without it --yolo means nothing, and without a terminal it does not start.
		Env:     map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"},
		Package: "@google/gemini-cli",
		Logins: []Login{{
			Word: "key", Secret: "GEMINI_API_KEY", Host: "generativelanguage.googleapis.com", Header: "x-goog-api-key",
			Get: "aistudio.google.com makes API keys", Check: "/v1beta/models?pageSize=1",
		}},
		Headless: []string{
			"-p", "--prompt", "-v", "--version", "-h", "--help", "-l", "--list-extensions",
			"--list-sessions", "mcp", "extensions",
		},
		home: geminiHome,
	}
}

// geminiHome chooses the key as the way to log in.
func geminiHome(_ []string, variable func(string) string) Home {
	if variable("GEMINI_API_KEY") == "" {
		return Home{}
	}
	how := []string{"security", "auth", "selectedType"}
	return Home{Answers: []Answer{{File: ".gemini/settings.json", Keys: how, Value: "gemini-api-key"}}}
}
