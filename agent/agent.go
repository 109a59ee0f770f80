// Package agent says what a coding agent needs to run in a cloister.
//
// The promise: it is data, and none of it widens what a cloister sees or may
// reach. An agent's own prompts are switched off, because the enclosure is the
// boundary; no credential is named here or taken from the host.
//
// It installs and starts nothing. An agent that it does not know is a program
// of that name, with no needs.
//
// Most readers want [Find].
package agent

import (
	"maps"
	"slices"
)

// Agent is one coding agent.
type Agent struct {
	Name string
	Argv []string          // the program, and what switches its own prompts off
	Env  map[string]string // what it needs inside
	// Install is how a person gets it, where it is known.
	Install string
	// Logins are the ways to say who pays, the usual one first.
	Logins []Login
}

// Login is one credential of an agent, by the name of the variable in which it
// looks for it, and where the credential is sent.
type Login struct {
	Word           string // for a person who chooses: key or token
	Secret         string
	Host           string
	Header, Format string
	Get            string // how a person gets one
}

// known are the agents with needs of their own. Updates are left to the host:
// inside, the programs are read-only.
func known() []Agent {
	return []Agent{
		{
			Name: "claude", Argv: []string{"claude", "--dangerously-skip-permissions"},
			Env:     map[string]string{"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
			Install: "npm install -g @anthropic-ai/claude-code",
			Logins: []Login{
				{Word: "key", Secret: "ANTHROPIC_API_KEY", Host: "api.anthropic.com", Header: "x-api-key", Get: "console.anthropic.com makes API keys"},
				{Word: "token", Secret: "CLAUDE_CODE_OAUTH_TOKEN", Host: "api.anthropic.com", Header: "Authorization", Format: "Bearer {}", Get: "claude setup-token makes one for a subscription"},
			},
		},
		{
			Name: "codex", Argv: []string{"codex", "--dangerously-bypass-approvals-and-sandbox"},
			Install: "npm install -g @openai/codex",
			Logins:  []Login{{Word: "key", Secret: "OPENAI_API_KEY", Host: "api.openai.com", Header: "Authorization", Format: "Bearer {}", Get: "platform.openai.com makes API keys"}},
		},
		{
			Name: "gemini", Argv: []string{"gemini", "--yolo"},
			// Without it --yolo means nothing, and without a terminal it does not start.
			Env:     map[string]string{"GEMINI_CLI_TRUST_WORKSPACE": "true"},
			Install: "npm install -g @google/gemini-cli",
			Logins:  []Login{{Word: "key", Secret: "GEMINI_API_KEY", Host: "generativelanguage.googleapis.com", Header: "x-goog-api-key", Get: "aistudio.google.com makes API keys"}},
		},
		{
			Name: "opencode", Argv: []string{"opencode"},
			Env:     map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"},
			Install: "npm install -g opencode-ai",
			Logins:  []Login{{Word: "key", Secret: "ANTHROPIC_API_KEY", Host: "api.anthropic.com", Header: "x-api-key", Get: "console.anthropic.com makes API keys"}},
		},
	}
}

// Names are the agents with needs of their own, sorted.
func Names() []string {
	var out []string
	for _, a := range known() {
		out = append(out, a.Name)
	}
	slices.Sort(out)
	return out
}

// Find gives the agent of that name.
func Find(name string) Agent {
	for _, a := range known() {
		if a.Name == name {
			return a
		}
	}
	return Agent{Name: name, Argv: []string{name}}
}

// With adds a person's own words: arguments behind the agent's, and variables
// over them.
func (a Agent) With(args []string, env map[string]string) Agent {
	a.Argv = append(slices.Clone(a.Argv), args...)
	merged := map[string]string{}
	for _, from := range []map[string]string{a.Env, env} {
		maps.Copy(merged, from)
	}
	a.Env = merged
	return a
}
