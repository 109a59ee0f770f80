package registry

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"cloister/api"
)

// A name stands in paths, host names, audit records and a person's shell: it
// is a word in each of them. An ID is 128 random bits: it stands in the names
// of kernel objects, where two sessions must never meet.
func validName(s string) bool {
	return len(s) >= 1 && len(s) <= 63 && alphanumeric(s[0]) && !strings.ContainsFunc(s, func(r rune) bool {
		return r > 0x7f || !alphanumeric(byte(r)) && r != '.' && r != '_' && r != '-'
	})
}

func validID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

func alphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// longestBase keeps a default name with its four digits within 45 letters.
const longestBase = 40

// BadName is the error for a name that cannot be one.
type BadName struct{ Name string }

// Error says what a name may be.
func (b *BadName) Error() string {
	return fmt.Sprintf("session name %q: want a letter or digit, then at most 62 letters, digits, dots, hyphens, "+
		"underscores", b.Name)
}

// CheckName refuses what cannot be a session's name.
func CheckName(name string) error {
	if !validName(name) || validID(name) || strings.Contains(name, "..") {
		return &BadName{Name: name}
	}
	return nil
}

// CheckID refuses what cannot be a session's ID.
func CheckID(id string) error {
	if !validID(id) {
		return fmt.Errorf("session id %q: want 32 hex digits", id)
	}
	return nil
}

// newID makes 32 hex digits. crypto/rand.Read never returns an error.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// folderName is a folder's name, made a session's.
func folderName(path string) string {
	name := wordOf(filepath.Base(path))
	if name == "" {
		return "cloister"
	}
	return name
}

// FolderName is a name for a session of the project in that folder.
func FolderName(path string) string { return folderName(path) }

// wordOf keeps of a text what a name may have, as one word.
func wordOf(text string) string {
	var base strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			base.WriteRune(r)
		case base.Len() > 0 && !strings.HasSuffix(base.String(), "-"):
			base.WriteByte('-')
		}
		if base.Len() >= longestBase {
			break
		}
	}
	return strings.Trim(base.String(), "-")
}

// names are the names for a session that no one named, the best first: for one
// that people come back to the folder's own, then with its agent; the last has
// four random digits.
func names(info api.SessionInfo) []string {
	base := folderName(info.Project)
	var out []string
	if info.Terminal {
		own := base
		if info.Path != info.Project && wordOf(info.Branch) != "" {
			own += "-" + wordOf(info.Branch)
		}
		own = own[:min(len(own), longestBase)]
		out = append(out, own, own+"-"+wordOf(info.Agent))
	}
	return append(out, base+"-"+newID()[:4])
}
