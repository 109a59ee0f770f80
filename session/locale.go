package session

import (
	"errors"
	"io/fs"
	"strings"
)

// Locale is the part of the caller's environment that describes their terminal.
type Locale struct{ Term, Lang, TZ string }

// Zone is the name of the time zone that /etc/localtime links to: UTC where there is
// no such file (localtime(5)), and where it is no link, or one elsewhere, what
// /etc/timezone says, of which Debian keeps both. Nothing is left where neither names
// one: natively with the host's own system programs inside read the same
// /etc/localtime; an image has its own, or UTC.
func Zone(link string, err error, timezone func() string) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "UTC"
	}
	_, name, linked := strings.Cut(link, "/zoneinfo/")
	if !linked {
		name = strings.TrimSpace(timezone())
	}
	if !isZone(name) {
		return ""
	}
	return name
}

// isZone reports whether a text is a name and no path that leads elsewhere.
func isZone(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-") != "" {
			return false
		}
	}
	return true
}
