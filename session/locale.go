package session

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

// Locale is the part of the caller's environment that describes their terminal.
type Locale struct{ Term, Lang, TZ string }

var zoneName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)
})

// Zone is the name of the time zone that /etc/localtime links to: UTC where there is
// no such file (localtime(5)), and where it is no link, or one elsewhere, what
// /etc/timezone says, of which Debian keeps both. Nothing is left where neither names
// one: natively with the host's own system programs inside read the same
// /etc/localtime; an image has its own, or UTC.
func Zone(link string, err error, timezone string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "UTC"
	}
	_, name, linked := strings.Cut(link, "/zoneinfo/")
	if !linked {
		name = strings.TrimSpace(timezone)
	}
	if !zoneName().MatchString(name) {
		return ""
	}
	return name
}
