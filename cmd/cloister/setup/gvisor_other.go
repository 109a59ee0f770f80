//go:build !linux

package setup

import (
	"context"
	"errors"
)

func (*Commands) setupGVisor(context.Context, string) error {
	return errors.New("setup gvisor: cloisters need Linux")
}
