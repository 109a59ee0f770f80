package main

import (
	"cloister/cmd/cloister/cli"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			a.Line("cloister %s %s %s/%s", cli.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}
