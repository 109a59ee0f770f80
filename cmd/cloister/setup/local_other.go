//go:build !linux

package setup

import (
	"context"
	"errors"
)

func (*Commands) setupLocal(context.Context, []string, bool) error {
	return errors.New("setup local-user: cloisters need Linux")
}
