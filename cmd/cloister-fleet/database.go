package main

import (
	"context"
	"errors"

	"cloister/cmd/cloister/cli"
	"cloister/serve/database"
	"cloister/serve/database/postgres"
	"cloister/serve/fleet"

	"github.com/spf13/cobra"
)

// databaseCommand is what cloister serve --database starts, so that it carries no database's client.
func databaseCommand() *cobra.Command {
	return &cobra.Command{
		Use: database.Command + " URL", Short: "Be the connection of cloister serve to its database", Hidden: true,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			// It ends with its client, which has sandboxes to end after it was asked to.
			return beDatabase(context.WithoutCancel(cmd.Context()), words[0])
		},
	}
}

func beDatabase(ctx context.Context, address string) error {
	conn, err := fleet.Joined()
	if err != nil {
		return cli.Usage("cloister serve --database URL starts it", "%s: there is no socket: %v", database.Command, err)
	}
	defer conn.Close()
	db, err := postgres.Open(ctx, address)
	var hello fleet.Hello
	if err != nil {
		hello = fleet.Hello{Kind: string(database.IsAway), Text: err.Error()}
		if _, ok := errors.AsType[*database.Newer](err); ok {
			hello.Kind = string(database.IsNewer)
		}
	}
	if serr := fleet.Say(conn, hello); serr != nil {
		return errors.Join(serr, err)
	}
	if err != nil {
		return nil // the client says it
	}
	return errors.Join(db.Serve(conn), db.Close())
}
