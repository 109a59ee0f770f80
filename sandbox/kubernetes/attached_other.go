//go:build !linux

package kubernetes

import (
	"cloister/sandbox"
	"cloister/sandbox/kubernetes/pod"
)

type attached struct{}

func terminal(sandbox.Wiring) bool { return false }

func (b *box) wire(w sandbox.Wiring) (*attached, error) {
	b.tail = pod.NewEnd(w.Stderr, b.id)
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = w.Stdin, w.Stdout, b.tail
	return nil, nil
}

func (*attached) begun()        {}
func (*attached) resize() error { return nil }
func (*attached) drain()        {}
func (*attached) finish()       {}
