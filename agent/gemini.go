package agent

func init() { register(gemini) }

// gemini is Gemini CLI. It reads no instructions of the system's that the payload could
// not write: the person adds them to its own file where they are wanted.
func gemini() Agent {
	return Agent{
		Name: "gemini", Argv: []string{"gemini", "--yolo"},
		// Without the first --yolo means nothing, and without a terminal it does not start. The second switches off a
		// sandbox of its own, over its settings: a cloister is one.
		Env:     map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_SANDBOX": "false"},
		Package: "@google/gemini-cli",
		Logins: []Credential{{
			Word: "key", Secret: "GEMINI_API_KEY", Host: "generativelanguage.googleapis.com", Header: "x-goog-api-key",
			Get: "aistudio.google.com makes API keys", Check: "/v1beta/models?pageSize=1",
		}},
		Obeys:     []Obeyed{{".gemini", Folder}},
		Keeps:     []string{".gemini"},
		Variables: []string{"GEMINI_", "GOOGLE_GEMINI_", "GOOGLE_API_"},
		Headless: []string{
			"-p", "--prompt", "-v", "--version", "-h", "--help", "-l", "--list-extensions",
			"--list-sessions", "mcp", "extensions",
		},
		home: geminiHome,
	}
}

// geminiHome chooses the key as the way to log in, and leaves out reports and updates.
func geminiHome(_ []string, variable func(string) string) Home {
	const file = ".gemini/settings.json"
	home := Home{Answers: []Answer{ // what it tells and asks of servers beside the model
		{File: file, Keys: []string{"privacy", "usageStatisticsEnabled"}, Value: false},
		{File: file, Keys: []string{"general", "enableAutoUpdate"}, Value: false},
		{File: file, Keys: []string{"general", "enableAutoUpdateNotification"}, Value: false},
	}}
	if variable("GEMINI_API_KEY") != "" {
		how := []string{"security", "auth", "selectedType"}
		home.Answers = append(home.Answers, Answer{File: file, Keys: how, Value: "gemini-api-key"})
	}
	return home
}
