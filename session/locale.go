package session

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Locale is the part of the caller's environment that describes their terminal.
type Locale struct{ Term, Lang, TZ string }

// LocaleOf is what the inside knows of the person's terminal, language and time, by their
// environment and whether they have a terminal. Each is
// there also where the caller's environment has none, as for a job or a service:
// TERM as docker sets it for a terminal, and the time zone of this machine. Where
// there is no terminal programs are informed of it: git starts no editor then that no one sees.
func LocaleOf(env func(string) string, terminal bool) Locale {
	l := Locale{Term: env("TERM"), Lang: env("LANG"), TZ: env("TZ")}
	switch {
	case l.Term != "":
	case terminal:
		l.Term = "xterm"
	default:
		l.Term = "dumb"
	}
	if l.Lang == "" {
		l.Lang = "C.UTF-8"
	}
	if l.TZ == "" {
		link, err := os.Readlink("/etc/localtime")
		l.TZ = Zone(link, err, func() string {
			text, _ := os.ReadFile("/etc/timezone") // few have one
			return string(text)
		})
	}
	return l
}

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
