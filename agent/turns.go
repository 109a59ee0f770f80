package agent

import "encoding/json"

// Turns are the files by which those known agents that have hooks call a command before each
// of their turns, with the turn's prompt on its standard input. They are the system's, which
// the payload cannot change, and name the command by its path.
func Turns(command string) []File {
	var files []File
	for _, a := range known() {
		if a.turns != nil {
			files = append(files, a.turns(command)...)
		}
	}
	return files
}

// hookSeconds bounds how long a turn waits for its hook.
const hookSeconds = 10

// hooked are settings with one command before each turn, in the form that Claude Code gave
// hooks and others took over. unit is how many of their units of time a second has.
func hooked(event, command string, unit int) string {
	type object = map[string]any
	text, err := json.MarshalIndent(object{"hooks": object{event: []object{{
		"hooks": []object{{"type": "command", "command": command, "timeout": hookSeconds * unit}},
	}}}}, "", "  ")
	if err != nil {
		return "" // texts and numbers
	}
	return string(text) + "\n"
}
