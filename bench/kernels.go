package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"cloister/bench/dressed"
)

// hosted is a cloister on gVisor, in the races of this subject.
const hosted, kernelStart = "cloister, gvisor", "start on a kernel of its own"

// measureKernels times starts on gVisor: a cloister's, and runsc's own two ways, beside a native one.
func measureKernels(ctx context.Context, w *world) error {
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	p, ok := w.peers[gvisorName]
	if !ok {
		return nil // its absence is told among the peers
	}
	w.env = append(w.env, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin:"+filepath.Dir(p.path))
	list := []contender{
		{ours, []string{w.cloister, "run", "--", "true"}, 1},
		{hosted, []string{w.cloister, "run", "--isolation", "gvisor", "--", "true"}, 1},
	}
	if p, ok := w.peers["runsc do"]; ok && os.Getuid() == 0 { // as a user it needs a namespace made for it
		bundle, root := filepath.Join(w.dir, "bundle"), filepath.Join(w.dir, "runsc")
		if err := dressed.Bundle(bundle); err != nil {
			return fmt.Errorf("make a bundle: %w", err)
		}
		// runsc keeps an empty network namespace there for the next of its containers.
		defer func() { _ = w.in(context.WithoutCancel(ctx), "umount", filepath.Join(root, "null-netns")).Run() }()
		list = append(list, contender{"runsc do", []string{p.path, "--network=none", "do", "true"}, 1},
			contender{"runsc run", []string{p.path, "--network=none", "--ignore-cgroups", "--root=" + root, "run", "--bundle=" + bundle, "bench-true"}, 1})
	}
	return w.race(ctx, kernelStart, w.rounds(40), list)
}
