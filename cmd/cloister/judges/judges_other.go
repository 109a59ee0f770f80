//go:build !linux

package judges

import (
	"context"

	"cloister/cmd/cloister/cli"
	"cloister/sandbox/judge"
)

func install(context.Context, *cli.App) error   { return judge.Available() }
func uninstall(context.Context, *cli.App) error { return judge.Available() }
func run(context.Context, *cli.App) error       { return judge.Available() }
func status(context.Context, *cli.App) error    { return judge.Available() }
