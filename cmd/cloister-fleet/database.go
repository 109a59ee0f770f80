package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"cloister/cmd/cloister/cli"
	"cloister/serve/database"
	"cloister/serve/database/postgres"

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

// socket is the descriptor of the connection to cloister serve.
const socket = 3

func beDatabase(ctx context.Context, address string) error {
	f := os.NewFile(socket, "cloister")
	conn, err := net.FileConn(f)
	if err != nil {
		return cli.Usage("cloister serve --database URL starts it", "%s: there is no socket: %v", database.Command, err)
	}
	f.Close()
	defer conn.Close()
	db, err := postgres.Open(ctx, address)
	var hello database.Hello
	if err != nil {
		hello.Kind, hello.Text = database.IsAway, err.Error()
		if _, ok := errors.AsType[*database.Newer](err); ok {
			hello.Kind = database.IsNewer
		}
	}
	text, jerr := json.Marshal(hello)
	if jerr != nil {
		return jerr
	}
	if _, werr := conn.Write(append(text, '\n')); werr != nil {
		return errors.Join(fmt.Errorf("answer: %w", werr), err)
	}
	if err != nil {
		return nil // the client says it
	}
	return errors.Join(db.Serve(conn), db.Close())
}
