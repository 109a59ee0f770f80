package agent

func init() { register(copilot) }

// copilot is GitHub Copilot CLI. Its hosts are one for each kind of subscription.
func copilot() Agent {
	return Agent{
		Name: "copilot", Argv: []string{"copilot", "--allow-all"},
		// Exactly true also trusts the folder (copilot help environment).
		Env:     map[string]string{"COPILOT_ALLOW_ALL": "true", "COPILOT_AUTO_UPDATE": "false"},
		Resume:  []string{"--continue", "-p", "{}"},
		Package: "@github/copilot",
		Logins: []Credential{{
			Word: "token", Secret: "COPILOT_GITHUB_TOKEN", Host: "api.github.com", Header: "Authorization", Format: "Bearer {}",
			Also: []string{
				"api.githubcopilot.com", "api.individual.githubcopilot.com",
				"api.business.githubcopilot.com", "api.enterprise.githubcopilot.com",
			},
			Get:   "github.com/settings/personal-access-tokens makes one, with the permission Copilot Requests",
			Check: "/user", With: []string{"User-Agent: cloister"},
		}},
		Obeys:     []Obeyed{{".copilot", Unheld}},
		Keeps:     []string{".copilot"},
		Variables: []string{"COPILOT_"},
		Headless: []string{
			"-p", "--prompt", "-v", "--version", "-h", "--help", "help", "version", "mcp", "plugin", "login", "config",
		},
	}
}
