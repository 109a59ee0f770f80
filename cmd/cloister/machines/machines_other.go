//go:build !linux

package machines

import (
	"context"
	"errors"

	"cloister/cmd/cloister/cli"
)

func setup(context.Context, *cli.App, *words) error {
	return errors.New("setup microvm: cloisters need Linux")
}

// Inside is none of a machine's programs here.
func Inside(context.Context, string, []string) (code int, is bool) { return 0, false }
