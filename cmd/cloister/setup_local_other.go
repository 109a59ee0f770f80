//go:build !linux

package main

import (
	"context"
	"errors"
)

func (*app) setupLocal(context.Context, []string, bool) error {
	return errors.New("setup local-user: cloisters need Linux")
}
