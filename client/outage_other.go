//go:build !linux

package client

// refuseWaiting has nothing to refuse: no driver builds a gate here.
func (l Listeners) refuseWaiting() {}
