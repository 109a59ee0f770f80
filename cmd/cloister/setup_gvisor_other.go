//go:build !linux

package main

import (
	"context"
	"errors"
)

func (*app) setupGVisor(context.Context, string) error {
	return errors.New("setup gvisor: cloisters need Linux")
}
