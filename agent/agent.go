// Package agent says what a coding agent needs to run in a cloister.
//
// The promise: it is data, and none of it widens what a cloister sees or may
// reach. An agent's own prompts are switched off, because the enclosure is the
// boundary; no credential is named here or taken from the host.
//
// It installs and starts nothing. An agent that it does not know is a program
// of that name, with no needs.
//
// Each agent has a file of its name with all that is particular to it, also what other
// rooms protect because of it: a new one is such a file, and nothing else
// (docs/decisions/0086).
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
	Logins []Credential
	// Headless are the words with which it answers and ends, drawing no screen: flags
	// anywhere, and commands as the first argument.
	Headless []string

	// Obeys are the paths in a project that it runs or obeys by itself: of each project
	// these are protected, whoever is started.
	Obeys []Obeyed
	// Keeps are the paths in a person's home where it keeps credentials and settings of its
	// own. What it keeps in .config, .local or .cache needs none.
	Keeps []string
	// Variables are beginnings of those by which it finds its service, its credential or
	// its rules: no repository may set one.
	Variables []string

	// home is what its private home holds before its first start; nil for nothing.
	home func(folders []string, variable func(string) string) Home
	// instructions are the files by which it reads a text about the cloister; nil where
	// it reads no file that root alone can write.
	instructions func(text string) []File
	// turns are the files by which it calls a command before each turn; nil where it has no
	// hook that root alone can write.
	turns func(command string) []File
}

// A Credential is one of an agent, by the name of the variable in which it
// looks for it, and where the credential is sent.
type Credential struct {
	Word           string // for a person who chooses: key or token
	Secret         string
	Host           string
	Header, Format string
	Also           []string // further hosts that get it
	Get            string   // how a person gets one
	// Check is the path at Host of a request that costs nothing, and is answered with
	// success only to a holder of the credential; "" where none is known. With are fields that
	// it needs besides, NAME: VALUE.
	Check string
	With  []string
}

// An Obeyed is a path in a project that an agent runs or obeys by itself, and how its name
// is held where it is absent.
type Obeyed struct {
	Path   string
	Absent Absent
}

// Absent is how an agent takes what is held in place of a path that it looks for.
type Absent byte

const (
	// Unheld is a name that it does not act by without another word from a person.
	Unheld Absent = iota
	// Folder is a folder, which may be empty.
	Folder
	// Ignoring is a folder in which it wants a .gitignore, and fails where it cannot make one.
	Ignoring
	// Blank is a file, which may be empty.
	Blank
)

// makers are what the agents' files registered.
var makers []func() Agent

// register enters an agent, from the file of its name.
func register(of func() Agent) { makers = append(makers, of) }

// known are the agents with needs of their own, sorted by name. Updates are left to the
// host: inside, the programs are read-only.
func known() []Agent {
	list := make([]Agent, 0, len(makers))
	for _, of := range makers {
		a := of()
		if a.Package != "" {
			a.Install = "npm install -g " + a.Package
		}
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Names are the agents with needs of their own, sorted.
func Names() []string {
	var out []string
	for _, a := range known() {
		out = append(out, a.Name)
	}
	return out
}

// AllObeyed are the paths in a project that the known agents obey.
func AllObeyed() []Obeyed { return all(func(a Agent) []Obeyed { return a.Obeys }) }

// AllKept are the paths in a home where the known agents keep what is theirs.
func AllKept() []string { return all(func(a Agent) []string { return a.Keeps }) }

// AllVariables are the beginnings of variables that no repository may set because of the known
// agents.
func AllVariables() []string { return all(func(a Agent) []string { return a.Variables }) }

func all[T any](of func(Agent) []T) []T {
	var out []T
	for _, a := range known() {
		out = append(out, of(a)...)
	}
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
