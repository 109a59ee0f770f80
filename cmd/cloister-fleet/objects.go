package main

import (
	"context"
	"errors"

	"cloister/cmd/cloister/cli"
	"cloister/serve/fleet"
	"cloister/serve/objects"
	"cloister/serve/objects/s3"

	"github.com/spf13/cobra"
)

// objectsCommand is what cloister serve --snapshots starts, so that it carries no client of S3.
func objectsCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use: objects.Command + " URL", Short: "Be the connection of cloister serve to its bucket", Hidden: true,
		Args: cli.Args(1, 1),
		RunE: func(cmd *cobra.Command, words []string) error {
			return beObjects(context.WithoutCancel(cmd.Context()), a, words[0])
		},
	}
}

func beObjects(ctx context.Context, a *cli.App, url string) error {
	conn, err := fleet.Joined()
	if err != nil {
		return cli.Usage("cloister serve --snapshots URL starts it", "%s: there is no socket: %v", objects.Command, err)
	}
	defer conn.Close()
	// The words that those who use S3 have for these.
	f := &bucketFlags{bucket: url, region: first(a.Env.Get("AWS_REGION"), "us-east-1"), ca: a.Env.Get("AWS_CA_BUNDLE")}
	client, name, prefix, err := f.client(a, "serve: --snapshots")
	var hello fleet.Hello
	if err != nil {
		hello.Text = err.Error()
	}
	if serr := fleet.Say(conn, hello); serr != nil {
		return errors.Join(serr, err)
	}
	if err != nil {
		return nil // the client says it
	}
	b := &s3.Bucket{Client: client, Bucket: name, Prefix: prefix + "/snapshots"}
	return b.Serve(ctx, conn)
}
