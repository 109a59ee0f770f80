//go:build !linux

package standin

import "errors"

func executes(string) error { return errors.New("a box is shown programs on Linux alone") }
