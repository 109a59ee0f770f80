package main

import (
	"context"
	"os"
	"path/filepath"

	"cloister/bench/forked"
)

// measureForked times forks of a process's memory on gVisor: a cloister's, and runsc's own.
func measureForked(ctx context.Context, w *world) error {
	p, ok := w.peers[gvisorName]
	if !ok {
		return nil // its absence is told among the peers
	}
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	w.env = append(w.env, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin:"+filepath.Dir(p.path))
	o := forked.Options{Cloister: w.cloister, Rounds: w.rounds(5), Said: w.said, Add: w.raw.add}
	if p, ok := w.peers["runsc do"]; ok && os.Getuid() == 0 {
		o.Runsc = p.path
	}
	return forked.Measure(ctx, o)
}
