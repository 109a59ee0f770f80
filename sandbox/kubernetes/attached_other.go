//go:build !linux

package kubernetes

import (
	"cloister/sandbox"
	"cloister/sandbox/kubernetes/feed"
	"cloister/sandbox/kubernetes/pod"
)

type attached struct{ feed *feed.Feed }

func terminal(sandbox.Wiring) bool { return false }

func (b *box) wire(w sandbox.Wiring, run pod.Run) (*attached, error) {
	text, err := run.Text()
	if err != nil {
		return nil, err
	}
	f, err := feed.New(text, w.Stdin)
	if err != nil {
		return nil, err
	}
	b.tail = pod.NewEnd(w.Stderr, b.id)
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = f.Input(), w.Stdout, b.tail
	return &attached{f}, nil
}

func (t *attached) begun()      { t.feed.Begin() }
func (*attached) resize() error { return nil }
func (*attached) drain()        {}
func (t *attached) finish()     { t.feed.End() }
