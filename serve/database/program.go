package database

import (
	"context"
	"errors"
	"io"

	"cloister/serve/fleet"
)

// Command is that of cloister-fleet which has the connection to the database.
const Command = "database"

// Started starts it for one connection, with the environment that is given.
func Started(program, address string, env []string) func(context.Context) (io.ReadWriteCloser, error) {
	start := fleet.Started(program, env, Command, address)
	return func(ctx context.Context) (io.ReadWriteCloser, error) {
		conn, err := start(ctx)
		if no, ok := errors.AsType[*fleet.Refused](err); ok && Kind(no.Kind) == IsNewer {
			return nil, &Newer{no.Text}
		}
		return conn, err
	}
}
