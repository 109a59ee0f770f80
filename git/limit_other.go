//go:build !linux

package git

import "errors"

// hold bounds a git that reads what came from inside; on this system it cannot.
func (limits) hold(int) error { return errors.New("bound git: this needs Linux") }
