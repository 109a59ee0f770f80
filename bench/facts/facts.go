// Package facts reads what the kernel says of the machine, for those who read figures.
//
// The call most readers want is [Field].
package facts

import (
	"os"
	"strings"
)

// Field is the value of a line NAME: VALUE; empty where there is none.
func Field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// FirstWords are the first words of a file.
func FirstWords(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	words := strings.Fields(string(text))
	return strings.Join(words[:min(n, len(words))], " ")
}
