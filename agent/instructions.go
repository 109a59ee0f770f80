package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// File is what an agent reads by itself, at a place of the system's and not of the
// project's or the home's: neither is touched, and the agent cannot change it.
type File struct{ Path, Text string }

// textAt is where all of the instructions stand, for agents whose settings name
// files.
const textAt = "/etc/cloister/host-commands.md"

// Instructions are the files that explain hostexec to the known agents, with what stands
// for it. The shims are programs; git says that pushes to some remotes go by the
// guardian.
func Instructions(shims []string, git bool) []File {
	text := hostCommands(shims, git)
	files := []File{{textAt, text}}
	for _, a := range known() {
		if a.instructions != nil {
			files = append(files, a.instructions(text)...)
		}
	}
	return files
}

func hostCommands(shims []string, git bool) string {
	var b strings.Builder
	b.WriteString(`# Commands on the host

You work in a cloister: an enclosure that shows this project, a read-only toolchain and
a home of your own. Network and host are reached only as rules or a person allow.

` + "`hostexec CMD [ARG...]`" + ` asks for one command on the host, in the folder that you are in, which
must lie in the project. Use it for what has to happen there, and nothing else.

- There is no shell: no pipes, redirections, variables or globs in its arguments. Its
  output, input and exit status are the command's.
- It may wait until a person has answered. Let it wait.
- "hostexec: refused" with status 126 is the answer, and says why. Do not ask for the
  same in other words, and do not look for a way around it: tell the person what you need.
- A script that changes while a person looks at it is not run: write it first, then ask.

Files that programs of the host obey are read-only here: git's configuration and hooks,
.envrc, settings of editors and agents, CI workflows. "Device or resource busy" and
"Read-only file system" at one of them is the enclosure's answer. Do not look for a way
around it: tell the person which path it is, and what you would change.
`)
	if programs := slices.DeleteFunc(slices.Clone(shims), func(s string) bool { return s == "git" }); len(programs) > 0 {
		fmt.Fprintf(&b, "\nThese names run on the host when you call them, as with hostexec: `%s`.\n",
			strings.Join(programs, "`, `"))
	}
	if git {
		b.WriteString("\nCommit with git as always. `git push` and `git fetch` to this project's remotes go by the\n" +
			"person's side, who sees the commits; `hostexec git push REMOTE BRANCH` does so for any remote.\n")
	}
	return b.String()
}

func settings(v map[string]any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "" // maps of strings
	}
	return string(text) + "\n"
}

// tomlText is a basic string of TOML, whose escapes JSON's are a part of.
func tomlText(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		return `""` // a string
	}
	return string(text)
}
