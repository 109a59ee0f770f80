// Package gitdir reads git's own folders without running git.
//
// Promise: what it reads serves to find what to protect, never to grant; whatever an
// agent wrote there neither blocks nor grows without a bound.
//
// Most readers want [Read] and [Valid].
package gitdir

import (
	"errors"
	"strings"
	"syscall"

	"cloister/host/resolve"
	"cloister/internal/realpath"
)

// Entry is one setting of a git configuration file. Section and key are lower
// case; the subsection is that between quotes.
type Entry struct{ Section, Subsection, Key, Value string }

// maxConfig bounds a configuration file that is looked at.
const maxConfig = 1 << 20

// Read reads a git configuration file of a project without includes and without running
// git. It serves to find what to protect, never to grant: a file that cannot be read, or
// to which a link leads, has no settings. See [Settings].
func Read(file string) []Entry {
	entries, _ := Settings(file)
	return entries
}

// Settings is Read, and reports whether a link leads to the file: a payload may have made
// it, and exchanges it for another at any moment.
func Settings(file string) (entries []Entry, linked bool) {
	text, err := resolve.ReadFile(file, maxConfig)
	if err != nil {
		return nil, errors.Is(err, syscall.ELOOP)
	}
	return Parse(string(text)), false
}

// ReadOwn is Read of a file of the person's or the machine's, to which links may lead.
func ReadOwn(file string) []Entry {
	real, err := realpath.Of(file)
	if err != nil {
		return nil
	}
	return Read(real)
}

// Parse gives the settings of a text.
func Parse(text string) []Entry {
	var out []Entry
	Each(strings.ReplaceAll(text, "\r\n", "\n"), func(e Entry, _, _ int) { out = append(out, e) })
	return out
}

// Each follows git-config(1): comments outside quotes, escapes, continued
// lines, a setting behind its section's bracket on one line. It tells where in the
// text each setting stands, with the end of its line.
func Each(text string, tell func(e Entry, from, to int)) {
	section, subsection, size := "", "", len(text)
	for text != "" {
		text = strings.TrimLeft(text, " \t\n\ufeff")
		switch {
		case text == "":
		case text[0] == '#' || text[0] == ';':
			_, text, _ = strings.Cut(text, "\n")
		case text[0] == '[':
			head, rest, ok := strings.Cut(text[1:], "]")
			if !ok {
				return
			}
			name, quoted, _ := strings.Cut(head, "\"")
			name, subsection, _ = strings.Cut(strings.TrimSpace(name), ".") // an old form
			if quoted != "" {
				subsection = unquoted(quoted)
			}
			section, text = strings.ToLower(strings.TrimSpace(name)), rest
		default:
			from := size - len(text)
			var key, value string
			key, value, text = setting(text)
			tell(Entry{section, subsection, strings.ToLower(key), value}, from, size-len(text))
		}
	}
}

// unquoted is a subsection's name, of the text behind its first quote.
func unquoted(text string) string {
	var b strings.Builder
	for i := 0; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// setting takes one "key = value" off the text.
func setting(text string) (key, value, rest string) {
	end := strings.IndexAny(text, "=\n#;")
	if end < 0 {
		return strings.TrimSpace(text), "", ""
	}
	key = strings.TrimSpace(text[:end])
	if text[end] != '=' {
		_, rest, _ = strings.Cut(text[end:], "\n")
		return key, "", rest
	}
	var b strings.Builder
	quoted := false
	i := end + 1
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\n':
			return key, strings.TrimSpace(b.String()), text[i+1:]
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			_, rest, _ = strings.Cut(text[i:], "\n")
			return key, strings.TrimSpace(b.String()), rest
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case '\n':
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return key, strings.TrimSpace(b.String()), ""
}

// Last is the value that holds when a setting is written several times.
func Last(entries []Entry, section, key string) string {
	value := ""
	for _, e := range entries {
		if e.Section == section && e.Key == key {
			value = e.Value
		}
	}
	return value
}

// WithoutPlace is a text of settings without core.worktree; ok tells that it had
// one.
func WithoutPlace(text string) (out string, ok bool) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	end := 0
	Each(text, func(e Entry, from, to int) {
		if e.Section == "core" && e.Subsection == "" && e.Key == "worktree" {
			b.WriteString(text[end:from] + "\n")
			end, ok = to, true
		}
	})
	return b.String() + text[end:], ok
}
