package services

import "strings"

// Variables reads a file of variables: NAME=VALUE in a line each, a value in quotes without
// them, and lines that begin with # for people. A name without a value is this machine's
// variable, and left out.
func Variables(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, value, set := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !set || name == "" || strings.HasPrefix(name, "#") || strings.ContainsRune(line, 0) {
			continue
		}
		value = strings.TrimSpace(value)
		if quoted := len(value) > 1 && (value[0] == '"' || value[0] == '\'') && value[len(value)-1] == value[0]; quoted {
			value = value[1 : len(value)-1]
		} else if at := strings.Index(value, " #"); at >= 0 {
			value = strings.TrimSpace(value[:at])
		}
		out = append(out, name+"="+value)
	}
	return out
}
