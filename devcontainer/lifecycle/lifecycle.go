// Package lifecycle puts the lifecycle commands of a devcontainer before a person's
// command, as one script for the shell of the inside.
//
// The promise: every command runs inside, in the specification's order, those of one
// object beside each other; the first that fails ends the start by its name and status
// before the person's command began; what they print goes to stderr, and their standard
// input is empty. The initializeCommand, which the reference runs on the host, is asked
// for by hostexec, and the start goes on without it where no one approves.
// The room starts no process.
// Most readers want [Script].
package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloister/internal/shellword"
)

// Failed is the exit status of a start that a lifecycle command ended: the enclosure
// for the person's command did not come about.
const Failed = 125

// Plan is what runs before the person's command.
type Plan struct {
	// Config is the merged configuration.
	Config map[string]any
	// Folder is where the commands begin.
	Folder string
	// Once names this devcontainer in these bytes: commands that belong to its creation
	// run once for it, in the private home of the project.
	Once string
	// Links are made inside first: a folder of the private home for each volume.
	Volumes []string
}

// VolumesDir is the folder of the private home in which a project's volumes are kept.
const VolumesDir = ".local/share/cloister-volumes"

// Script is the command line that runs the plan and then becomes argv. For a plan of nothing
// it is argv, and the image needs no shell.
func Script(p Plan, argv []string) []string {
	var b strings.Builder
	b.WriteString("failed() { printf 'cloister: %s of the devcontainer failed" +
		" with exit status %s\\n' \"$1\" \"$2\" >&2\nexit " + fmt.Sprint(Failed) + "; }\n")
	head := b.Len()
	if len(p.Volumes) > 0 {
		b.WriteString("mkdir -p")
		for _, v := range p.Volumes {
			b.WriteString(" \"$HOME\"/" + VolumesDir + "/" + shellword.Line(v))
		}
		b.WriteString(" || failed 'making the volumes' $?\n")
	}
	if p.Folder != "" {
		b.WriteString("cd " + shellword.Line(p.Folder) + " || failed 'entering its folder' $?\n")
	}
	p.initialize(&b)
	once := p.commands("onCreateCommand", "updateContentCommand", "postCreateCommand")
	if once != "" {
		mark := "\"$HOME\"/.cache/cloister-devcontainer/" + shellword.Line(p.Once)
		b.WriteString("if [ ! -e " + mark + " ]; then\n" + once +
			"mkdir -p \"$HOME\"/.cache/cloister-devcontainer && : >" + mark + "\nfi\n")
	}
	b.WriteString(p.commands("postStartCommand", "postAttachCommand"))
	if b.Len() == head {
		return argv
	}
	b.WriteString("exec \"$@\"\n")
	return append([]string{"/bin/sh", "-c", b.String(), "devcontainer"}, argv...)
}

// Any reports whether a configuration has anything to run.
func (p Plan) Any() bool {
	for _, name := range []string{"onCreateCommands", "updateContentCommands", "postCreateCommands", "postStartCommands",
		"postAttachCommands"} {
		if list, ok := p.Config[name].([]any); ok && len(list) > 0 {
			return true
		}
	}
	return len(p.Volumes) > 0 || p.Config["initializeCommand"] != nil || p.Folder != ""
}

// initialize asks for the command of the host.
func (p Plan) initialize(b *strings.Builder) {
	for _, one := range steps("initializeCommand", p.Config["initializeCommand"]) {
		b.WriteString("{ command -v hostexec >/dev/null 2>&1 && hostexec " + one.words + " </dev/null >&2; } || " +
			"printf 'cloister: initializeCommand of the devcontainer was not run on the host\\n' >&2\n")
	}
}

func (p Plan) commands(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		list, _ := p.Config[name+"s"].([]any)
		for _, command := range list {
			parallel(&b, steps(name, command))
		}
	}
	return b.String()
}

// step is one command line of the shell.
type step struct{ name, words string }

// parallel runs the steps of one command beside each other, and waits for all.
func parallel(b *strings.Builder, list []step) {
	if len(list) == 1 {
		b.WriteString("(" + list[0].words + ") </dev/null >&2 || failed " + shellword.Line(list[0].name) + " $?\n")
		return
	}
	for n, s := range list {
		fmt.Fprintf(b, "(%s) </dev/null >&2 & step%d=$!\n", s.words, n)
	}
	for n := range list {
		fmt.Fprintf(b, "wait \"$step%d\"; step%d=$?\n", n, n)
	}
	for n, s := range list {
		fmt.Fprintf(b, "[ \"$step%d\" = 0 ] || failed %s \"$step%d\"\n", n, shellword.Line(s.name), n)
	}
}

// steps are the command lines of a lifecycle command: a text for the shell, words for a
// program, or an object of either by name.
func steps(name string, v any) []step {
	switch t := v.(type) {
	case string:
		if strings.TrimSpace(t) == "" {
			return nil
		}
		return []step{{name, shellword.Line("/bin/sh", "-c", t)}}
	case []any:
		var words []string
		for _, w := range t {
			words = append(words, plain(w))
		}
		if len(words) == 0 {
			return nil
		}
		return []step{{name, shellword.Line(words...)}}
	case map[string]any:
		var out []step
		for _, key := range slices.Sorted(maps.Keys(t)) {
			if _, deeper := t[key].(map[string]any); deeper {
				continue // the specification knows one level
			}
			out = append(out, steps(name+" "+key, t[key])...)
		}
		return out
	}
	return nil
}

func plain(v any) string {
	switch t := v.(type) {
	case string:
		return t
	case json.Number:
		return t.String()
	}
	return fmt.Sprint(v)
}
