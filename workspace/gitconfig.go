package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
)

// entry is one setting of a git configuration file. Section and key are lower
// case; the subsection is that between quotes.
type entry struct{ section, subsection, key, value string }

// maxConfig bounds a configuration file that is looked at.
const maxConfig = 1 << 20

// readGitConfig reads a git configuration file without includes and without
// running git. It serves to find what to protect, never to grant: a file that
// cannot be read has no settings.
func readGitConfig(file string) []entry {
	fi, err := os.Stat(file)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() > maxConfig {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return parseGitConfig(string(text))
}

// parseGitConfig gives the settings of a text.
func parseGitConfig(text string) []entry {
	var out []entry
	eachSetting(strings.ReplaceAll(text, "\r\n", "\n"), func(e entry, _, _ int) { out = append(out, e) })
	return out
}

// eachSetting follows git-config(1): comments outside quotes, escapes, continued
// lines, a setting behind its section's bracket on one line. It tells where in the
// text each setting stands, with the end of its line.
func eachSetting(text string, tell func(e entry, from, to int)) {
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
			tell(entry{section, subsection, strings.ToLower(key), value}, from, size-len(text))
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

// last is the value that holds when a setting is written several times.
func last(entries []entry, section, key string) string {
	value := ""
	for _, e := range entries {
		if e.section == section && e.key == key {
			value = e.value
		}
	}
	return value
}

// passive are the sections whose values name no program and no file that git
// runs or obeys.
var passive = []string{"branch", "remote", "url", "submodule", "user", "extensions", "color", "push", "pull", "fetch", "init"}

// maxIncludes bounds the files that include each other.
const maxIncludes = 32

// configured lists the paths inside the project that the repository's or the
// person's git configuration names: hook folders, included files, programs.
// Whoever writes there is run by git.
func configured(root string, g Git, home string) []string {
	files := []string{filepath.Join(g.Common, "config"), filepath.Join(g.Dir, "config.worktree")}
	if home != "" {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
	}
	var out []string
	seen := map[string]bool{}
	for len(files) > 0 && len(seen) < maxIncludes {
		file := files[0]
		files = files[1:]
		if seen[file] {
			continue
		}
		seen[file] = true
		for _, e := range readGitConfig(file) {
			if slices.Contains(passive, e.section) || e.value == "" {
				continue
			}
			include := (e.section == "include" || e.section == "includeif") && e.key == "path"
			base := root
			if include {
				base = filepath.Dir(file)
			}
			for _, word := range append(strings.Fields(e.value), e.value) {
				path := resolve(strings.Trim(word, "!\"'"), base, home)
				if path == "" {
					continue
				}
				if include {
					files = append(files, path)
				}
				hooks := e.section == "core" && e.key == "hookspath"
				if _, err := os.Lstat(path); (err == nil || hooks || include) && realpath.Inside(path, root) && path != root &&
					!realpath.Inside(path, filepath.Join(root, ".git")) && !slices.Contains(out, path) {
					out = append(out, path)
				}
			}
		}
	}
	return out
}

// resolve makes a word of the configuration a path; empty where it is none.
func resolve(word, base, home string) string {
	switch {
	case word == "" || word == "." || strings.ContainsAny(word, "\x00\n") || strings.Contains(word, "://"):
		return ""
	case word == "~" || strings.HasPrefix(word, "~/"):
		if home == "" {
			return ""
		}
		return filepath.Join(home, word[1:])
	case filepath.IsAbs(word):
		return filepath.Clean(word)
	}
	return filepath.Join(base, word)
}
