package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"cloister/session"
)

// locale is what the inside knows of this terminal, language and time. Each is
// there also where the caller's environment has none, as for a job or a service:
// TERM as docker sets it, and the time zone of this machine.
func (a *app) locale() session.Locale {
	l := session.Locale{Term: a.env.get("TERM"), Lang: a.env.get("LANG"), TZ: a.env.get("TZ")}
	if l.Term == "" {
		l.Term = "xterm"
	}
	if l.Lang == "" {
		l.Lang = "C.UTF-8"
	}
	if l.TZ == "" {
		link, err := os.Readlink("/etc/localtime")
		l.TZ = zone(link, err)
	}
	return l
}

// zone is the name of the time zone that /etc/localtime links to: UTC where there
// is no such file (localtime(5)), nothing where it is no link, because inside it is
// the same file.
func zone(link string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "UTC"
	}
	_, name, _ := strings.Cut(link, "/zoneinfo/")
	return name
}
