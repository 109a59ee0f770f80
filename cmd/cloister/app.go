package main

import (
	"context"
	"fmt"
)

// main runs one command line and returns the exit status.
func (a *app) main(ctx context.Context, args []string) int {
	err := a.execute(ctx, args)
	if flushErr := a.Out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("write the answer: %w", flushErr)
	}
	a.Complain(err)
	return exitStatus(err)
}
