// Package agent says what a coding agent needs to run in a cloister.
//
// The promise: it is data, and none of it widens what a cloister sees or may
// reach. An agent's own prompts are switched off, because the enclosure is the
// boundary; no credential is named here or taken from the host.
//
// It installs and starts nothing. An agent that it does not know is a program
// of that name, with no needs.
//
// Each agent has a file of its name with all that is particular to it. A new one is such
// a file and its place in known.
//
// Most readers want [Find].
package agent

import (
	"maps"
	"slices"
	"strings"
)

// Agent is one coding agent.
type Agent struct {
	Name string
	Argv []string          // the program, and what switches its own prompts off
	Env  map[string]string // what it needs inside
	// Resume are the arguments with which it goes on with its last conversation in this
	// folder, {} where the person's next words stand; nil where it has none.
	Resume []string
	// ResumeOne are those with which it goes on with one that is named, {id} where its name
	// stands; nil for Resume.
	ResumeOne []string
	// Install is how a person gets it, where it is known; Package its package of npm,
	// where it has one.
	Install, Package string
	// Logins are the ways to say who pays, the usual one first.
	Logins []Login
	// Headless are the words with which it answers and ends, drawing no screen: flags
	// anywhere, and commands as the first argument.
	Headless []string

	// home is what its private home holds before its first start; nil for nothing.
	home func(folders []string, variable func(string) string) Home
	// instructions are the files by which it reads a text about the cloister; nil where
	// it reads no file that root alone can write.
	instructions func(text string) []File
	// turns are the files by which it calls a command before each turn; nil where it has no
	// hook that root alone can write.
	turns func(command string) []File
}

// Login is one credential of an agent, by the name of the variable in which it
// looks for it, and where the credential is sent.
type Login struct {
	Word           string // for a person who chooses: key or token
	Secret         string
	Host           string
	Header, Format string
	Also           []string // further hosts that get it
	Get            string   // how a person gets one
	// Check is the path at Host of a request that costs nothing, and is answered with
	// success only to who has the credential; "" where none is known. With are fields that
	// it needs besides, NAME: VALUE.
	Check string
	With  []string
}

// known are the agents with needs of their own, each from the file of its name. Updates
// are left to the host: inside, the programs are read-only.
func known() []Agent {
	list := []Agent{claude(), codex(), gemini(), opencode(), copilot(), amp(), aider(), goose(), cursor()}
	for i := range list {
		if list[i].Package != "" {
			list[i].Install = "npm install -g " + list[i].Package
		}
	}
	return list
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

// IsHeadless reports whether the agent, given these arguments, answers and ends.
func (a Agent) IsHeadless(args []string) bool {
	for i, arg := range args {
		if arg == "--" {
			return false
		}
		word, _, _ := strings.Cut(arg, "=")
		if (i == 0 || strings.HasPrefix(word, "-")) && slices.Contains(a.Headless, word) {
			return true
		}
	}
	return false
}

// Resumed are the arguments with which it goes on with a conversation, the last one where that
// has no name, and with a person's next words.
func (a Agent) Resumed(conversation, prompt string) []string {
	args := a.Resume
	switch {
	case conversation != "" && a.ResumeOne != nil:
		args = a.ResumeOne
	case args == nil:
		args = []string{"{}"}
	}
	args = slices.Clone(args)
	for i := range args {
		switch args[i] {
		case "{}":
			args[i] = prompt
		case "{id}":
			args[i] = conversation
		}
	}
	return args
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
