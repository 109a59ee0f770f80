package shell

import "strings"

// Git is a command of git's on the server's side.
type Git struct {
	Repository string // as written
	Push       bool   // it writes
}

// ParseGit reads the command line that git sends: a program's name and one path, in
// git's own quotes or without any. What a shell could read otherwise is none.
func ParseGit(command string) (Git, bool) {
	name, rest, ok := strings.Cut(command, " ")
	if !ok {
		return Git{}, false
	}
	if name == "git" { // "git upload-pack", as the protocol's description has it
		var service string
		if service, rest, ok = strings.Cut(rest, " "); !ok {
			return Git{}, false
		}
		name = "git-" + service
	}
	var g Git
	switch name {
	case "git-upload-pack", "git-upload-archive":
	case "git-receive-pack":
		g.Push = true
	default:
		return Git{}, false
	}
	if g.Repository, ok = unquote(rest); !ok || !plain(g.Repository) {
		return Git{}, false
	}
	return g, true
}

// unquote undoes sq_quote of git's quote.c: '…' in which \' and \! stand outside.
func unquote(s string) (string, bool) {
	if !strings.HasPrefix(s, "'") {
		return s, s != "" && strings.Trim(s, bareWord) == ""
	}
	var b strings.Builder
	for {
		part, rest, ok := strings.Cut(s[1:], "'")
		if !ok {
			return "", false
		}
		b.WriteString(part)
		switch {
		case rest == "":
			return b.String(), true
		case strings.HasPrefix(rest, `\''`), strings.HasPrefix(rest, `\!'`):
			b.WriteByte(rest[1])
			s = rest[2:]
		default:
			return "", false
		}
	}
}

// bareWord are the bytes that no shell reads as anything else.
const bareWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/@+-"

// plain reports whether a path has one spelling.
func plain(path string) bool {
	if path == "" || path[0] == '-' || strings.Contains(path, "//") {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`%?#\;|&<>()*[]{}$"'`+"`", r)
	})
}
