package reading

import "fmt"

// A Login is what a connection of a protocol other than HTTP says at its beginning: who
// wants what.
type Login struct {
	Protocol string // "postgres" or "ssh"
	User     string
	Database string // of PostgreSQL
	// Of SSH: what is to run, empty where someone only logs in. Repository is git's,
	// where Command is one of git's that can be read, and Push says that it writes.
	Command    string
	Repository string
	Push       bool
}

func (l Login) String() string {
	words := fmt.Sprintf("%s user %q", l.Protocol, l.User)
	switch {
	case l.Protocol == "postgres":
		words += fmt.Sprintf(" database %q", l.Database)
	case l.Repository != "":
		words += fmt.Sprintf(" %s %q", l.Git(), l.Repository)
	case l.Command != "":
		words += fmt.Sprintf(" command %q", l.Command)
	}
	return words
}

// Git is what a login does to its repository: fetch or push.
func (l Login) Git() string {
	if l.Push {
		return "push"
	}
	return "fetch"
}
