package agent

func init() { register(amp) }

// amp is Amp.
func amp() Agent {
	return Agent{
		Name: "amp", Argv: []string{"amp", "--dangerously-allow-all"},
		Env:     map[string]string{"AMP_SKIP_UPDATE_CHECK": "1"},
		Package: "@ampcode/cli",
		Logins: []Credential{{
			Word: "key", Secret: "AMP_API_KEY", Host: "ampcode.com", Header: "Authorization", Format: "Bearer {}",
			Get: "ampcode.com/settings makes keys",
		}},
		Obeys:     []Obeyed{{".amp", Unheld}},
		Variables: []string{"AMP_"},
		Headless: []string{
			"-x", "--execute", "-V", "--version", "-h", "--help", "login", "logout",
			"threads", "mcp", "doctor", "update", "usage",
		},
	}
}
