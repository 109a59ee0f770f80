// Package shellword writes a command line as a shell reads it.
//
// Promise: what a person copies from a hint runs as these words and no others. It
// reads nothing: no shell stands between cloister and a command.
//
// Most readers want Line.
package shellword

import "strings"

const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,"

// Line is a command line as a shell reads it.
func Line(argv ...string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		if w == "" || strings.Trim(w, plain) != "" {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}
