//go:build !linux

package overlays

import (
	"errors"

	"cloister/state/store"
)

func (m *measuring) view(store.Mount) error { return errors.New("overlays are Linux's") }
