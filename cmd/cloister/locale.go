package main

import (
	"os"

	"golang.org/x/term"

	"cloister/session"
)

// locale is what the inside knows of this terminal, language and time. Each is
// there also where the caller's environment has none, as for a job or a service:
// TERM as docker sets it for a terminal, and the time zone of this machine. Where
// there is no terminal programs are informed of it: git starts no editor then that no one sees.
func (a *app) locale() session.Locale {
	l := session.Locale{Term: a.Env.Get("TERM"), Lang: a.Env.Get("LANG"), TZ: a.Env.Get("TZ")}
	switch {
	case l.Term != "":
	case term.IsTerminal(int(a.Stdin.Fd())):
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
