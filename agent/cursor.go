package agent

func init() { register(cursor) }

// cursor is Cursor's agent for terminals. Its program has the name of the product's
// agent, not the product's.
func cursor() Agent {
	return Agent{
		Name: "cursor-agent", Argv: []string{"cursor-agent", "--force"},
		Resume:  []string{"--continue", "{}"},
		Install: "see cursor.com/cli: it has an installer of its own",
		Logins: []Credential{{
			Word: "key", Secret: "CURSOR_API_KEY", Host: "api2.cursor.sh", Header: "Authorization", Format: "Bearer {}",
			Get: "cursor.com/dashboard makes API keys",
		}},
		Obeys:     []Obeyed{{".cursor", Folder}},
		Keeps:     []string{".cursor"},
		Variables: []string{"CURSOR_"},
		Headless: []string{
			"-p", "--print", "-v", "--version", "-h", "--help", "help", "login", "logout",
			"status", "whoami", "models", "mcp", "update", "ls",
		},
	}
}
