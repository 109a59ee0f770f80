package session

import (
	"errors"
	"io/fs"
	"strings"
)

// Locale is the part of the caller's environment that describes their terminal.
type Locale struct{ Term, Lang, TZ string }

// Zone is the name of the time zone that /etc/localtime links to: UTC where there
// is no such file (localtime(5)), nothing where it is no link, because inside it is
// the same file.
func Zone(link string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "UTC"
	}
	_, name, _ := strings.Cut(link, "/zoneinfo/")
	return name
}
