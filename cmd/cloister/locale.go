package main

import (
	"os"

	"golang.org/x/term"

	"cloister/session"
	"cloister/ui/pair"
)

// ascii reports whether a file is a terminal that is said to show ASCII alone. One of
// which nothing is said is taken to show more, as most do.
func (a *app) ascii(to *os.File) bool {
	said := a.env.get("LC_ALL") + a.env.get("LC_CTYPE") + a.env.get("LANG")
	return said != "" && !pair.UTF8(a.env.get) && term.IsTerminal(int(to.Fd()))
}

// locale is what the inside knows of this terminal, language and time. Each is
// there also where the caller's environment has none, as for a job or a service:
// TERM as docker sets it for a terminal, and the time zone of this machine. Where
// there is no terminal programs are informed of it: git starts no editor then that no one sees.
func (a *app) locale() session.Locale {
	l := session.Locale{Term: a.env.get("TERM"), Lang: a.env.get("LANG"), TZ: a.env.get("TZ")}
	switch {
	case l.Term != "":
	case term.IsTerminal(int(a.stdin.Fd())):
		l.Term = "xterm"
	default:
		l.Term = "dumb"
	}
	if l.Lang == "" {
		l.Lang = "C.UTF-8"
	}
	if l.TZ == "" {
		link, err := os.Readlink("/etc/localtime")
		l.TZ = session.Zone(link, err, func() string {
			text, _ := os.ReadFile("/etc/timezone") // few have one
			return string(text)
		})
	}
	return l
}
