package database

import (
	"errors"
	"fmt"
)

// ErrLost is the error of what this server does not have any more.
var ErrLost = errors.New("another server was given what this one had")

// ErrNone is the error of an ID that no server has a sandbox of.
var ErrNone = errors.New("no server has that sandbox")

// Away is the error of a database that cannot be asked, or cannot write.
type Away struct{ Why string }

func (e *Away) Error() string {
	return fmt.Sprintf("the database cannot be asked, so nothing is given out: %s", e.Why)
}

// Over is the error of a tenant's limit, counted over all servers.
type Over struct{ What string }

func (e *Over) Error() string { return e.What }

// Newer is the error of tables that a newer release made.
type Newer struct{ Why string }

func (e *Newer) Error() string { return e.Why }

// err is what a fault means.
func (f Fault) err() error {
	switch f.Kind {
	case OK:
		return nil
	case IsLost:
		return ErrLost
	case IsOver:
		return &Over{f.Text}
	case IsNone:
		return ErrNone
	case IsNewer:
		return &Newer{f.Text}
	case IsOther:
		return errors.New("the register was changed meanwhile by another command: say it again")
	case IsAway:
	}
	return &Away{f.Text}
}
